//! `{ serverStatus: 1 }`: the state of the server.

use bson::{DateTime, RawDocumentBuf, rawdoc};

use super::{Access, Command, build_info, hello, long, number};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("serverStatus", Access::Read, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    // A client can ask for sections: the server has only the following few.
    arguments.accept(&["serverStatus"]);
    let server = call.server;
    let address = call.connection.local.to_string();
    let available = server.connections.available_permits();
    let current = server.max_connections.saturating_sub(available);
    let total = server
        .total_connections
        .load(std::sync::atomic::Ordering::Relaxed);
    let uptime = server.started.elapsed();
    let millis = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
    Ok(rawdoc! {
        "host": address.as_str(),
        "version": build_info::VERSION,
        "process": "odm",
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs_f64(),
        "uptimeMillis": long(millis),
        "localTime": DateTime::now(),
        "connections": {
            "current": number(current as u64),
            "available": number(available as u64),
            "totalCreated": total,
        },
        "metrics": { "cursor": { "open": { "total": number(server.cursors.count() as u64) } } },
        "repl": { "setName": hello::SET_NAME, "primary": address.as_str(), "me": address.as_str() },
        "storageEngine": {
            "name": "odm",
            "supportsCommittedReads": true,
            "persistent": true,
            "readOnly": !server.allows_writes,
        },
    })
}
