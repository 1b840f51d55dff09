# ruff: noqa: RUF001
"""A line in each of twenty scripts: days, seasons, water and bread, in words that a reader of the language knows."""

LINES = {
    "Latin": "Der Straßenbahnfahrer grüßt: «Schöne Grüße», it's l'été",
    "Cyrillic": "Хлеб и вода, объём воды",
    "Greek": "Το ψωμί και το νερό: ἀνήρ",
    "Armenian": "Հաց և ջուր, գարուն",
    "Georgian": "პური და წყალი, გაზაფხული",
    "Hebrew": "לֶחֶם וּמַיִם, אָבִיב",
    "Arabic": "خُبْزٌ وَمَاءٌ، الرَّبِيعُ",
    "Syriac": "ܠܰܚܡܳܐ ܘܡܰܝ̈ܳܐ",
    "Devanagari": "रोटी और पानी, विज्ञान की शिक्षा क्‍षेत्र।",
    "Bengali": "রুটি ও জল, বসন্ত ঋতু",
    "Gurmukhi": "ਰੋਟੀ ਅਤੇ ਪਾਣੀ, ਬਸੰਤ",
    "Gujarati": "રોટલી અને પાણી, વસંત ઋતુ",
    "Oriya": "ରୁଟି ଓ ପାଣି, ବସନ୍ତ",
    "Tamil": "ரொட்டியும் தண்ணீரும், வசந்தம்",
    "Telugu": "రొట్టె మరియు నీరు, వసంతం",
    "Kannada": "ರೊಟ್ಟಿ ಮತ್ತು ನೀರು, ವಸಂತ",
    "Malayalam": "അപ്പവും വെള്ളവും, വസന്തം",
    "Sinhala": "පාන් සහ ජලය, ශ්‍රී ලංකා",
    "Ethiopic": "ዳቦ እና ውሃ፡ ፀደይ",
    "Hangul": "빵과 물, 봄이 왔다",
    "Mongolian": "ᠲᠠᠯᠬ᠎ᠠ ᠤᠰᠤ",
    "Persian": "می‌خواهم نان و آب",
    "Vietnamese": "Bánh mì và nước, mùa xuân",
}
"""Scripts, and languages, whose words stand between blanks."""

UNSPACED = {
    "Thai": "ขนมปังและน้ำในฤดูใบไม้ผลิที่บ้าน",
    "Lao": "ເຂົ້າຈີ່ແລະນ້ຳໃນລະດູໃບໄມ້ປົ່ງ",
    "Khmer": "នំប៉័ងនិងទឹកនៅរដូវផ្ការីក",
    "Burmese": "ပေါင်မုန့်နှင့်ရေနွေဦးရာသီ",
    "Chinese": "春天的面包和水很好吃",
    "Japanese": "春に食べた麺と水はおいしかった",
}
"""Scripts without blanks."""
