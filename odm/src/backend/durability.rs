/// When a write returns: see [`Database::with_durability`](crate::Database::with_durability).
///
/// With both settings, a write happens completely or not at all, and a later write is never kept without an earlier write. A crash of
/// the process loses no acknowledged write. A write with full durability makes all earlier relaxed writes durable too, also if it
/// finds nothing to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After the change is on the disk. A power loss loses no acknowledged write.
    #[default]
    Full,
    /// After the operating system has the change. The file is synced within 100 milliseconds. A power loss, or a crash of the operating
    /// system, loses the acknowledged writes since the last sync.
    Relaxed,
}
