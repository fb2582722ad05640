"""What a run says about itself: progress as plain numbers, and a diagnosis in plain words."""
