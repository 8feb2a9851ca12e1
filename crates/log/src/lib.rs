//! Record batches, segments and recovery, over a small Disk trait.
