"""Programs of `dtrain predict` that work on the parts of a data set. Without torch; with pyarrow."""
