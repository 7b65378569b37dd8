"""Number formats, exact integer arithmetic and the expression of one lane: numpy, no hardware."""
