//! `{ connectionStatus: 1 }`: the user of the connection.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("connectionStatus", Access::Anyone, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["connectionStatus"]);
    let shows_privileges = arguments.flag("showPrivileges")?;
    arguments.finish()?;
    let (mut users, mut roles) = (RawArrayBuf::new(), RawArrayBuf::new());
    let credentials = call.server.credentials.as_ref();
    if let Some(credentials) = credentials.filter(|_| call.connection.is_authenticated) {
        users.push(rawdoc! { "user": credentials.user(), "db": "admin" });
        let role = match call.server.allows_writes {
            true => "readWriteAnyDatabase",
            false => "readAnyDatabase",
        };
        roles.push(rawdoc! { "role": role, "db": "admin" });
    }
    let mut information = rawdoc! { "authenticatedUsers": users, "authenticatedUserRoles": roles };
    if shows_privileges {
        let privileges = RawArrayBuf::new();
        information.append(bson::raw::cstr!("authenticatedUserPrivileges"), privileges);
    }
    Ok(rawdoc! { "authInfo": information })
}
