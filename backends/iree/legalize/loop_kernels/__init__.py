"""Small loops as one kernel each, of scalar code."""
