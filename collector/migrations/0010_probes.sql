-- Greedy probes of a window, on the row against the primary: those compared with the control's, and the
-- others by reason. `pairs` and `excluded` count copies without them.
ALTER TABLE window_totals
    ADD COLUMN IF NOT EXISTS probes UInt64,
    ADD COLUMN IF NOT EXISTS probes_excluded Map(String, UInt64);
