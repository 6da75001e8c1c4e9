"""Small loops, each as one kernel of scalar code."""
