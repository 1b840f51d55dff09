"""What every program shares: options, schedulers, progress, reports and pages."""
