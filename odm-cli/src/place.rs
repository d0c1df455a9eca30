//! Databases as arguments: files, and URLs of MongoDB.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use odm::backend::{self, Backend, Engine};

use crate::failure::{Failure, Result};

/// The database of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    /// A `mongodb://` or `mongodb+srv://` URL. May contain a password.
    Server(String),
}

impl FromStr for Place {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Place, Infallible> {
        let is_url = ["mongodb://", "mongodb+srv://"];
        Ok(match is_url.iter().any(|scheme| text.starts_with(scheme)) {
            true => Place::Server(text.to_owned()),
            false => Place::File(PathBuf::from(text.strip_prefix("odm:").unwrap_or(text))),
        })
    }
}

impl Place {
    /// Returns the name of the file without its extension, or the name of the database in the URL.
    pub(crate) fn database_name(&self) -> Option<String> {
        match self {
            Place::File(path) => path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
            Place::Server(url) => {
                let (_, rest) = url.split_once("://")?;
                let (_, name) = rest.split_once('/')?;
                let name = name.split('?').next().filter(|name| !name.is_empty());
                name.map(str::to_owned)
            }
        }
    }

    /// Opens a database that a command only reads.
    pub(crate) async fn open_source(&self) -> Result<Arc<dyn Backend>> {
        Ok(match self {
            Place::File(path) => Arc::new(
                Engine::open_read_only(path)
                    .await
                    .map_err(Failure::opening)?,
            ),
            Place::Server(url) => open_server(url).await?,
        })
    }

    /// Opens a database that a command writes. Creates a missing file.
    pub(crate) async fn open_target(&self) -> Result<Arc<dyn Backend>> {
        Ok(match self {
            Place::File(path) => Arc::new(Engine::open(path).await.map_err(Failure::opening)?),
            Place::Server(url) => open_server(url).await?,
        })
    }

    /// Opens a database that a dry run only reads. A missing file is an empty database.
    pub(crate) async fn open_target_read_only(&self) -> Result<Arc<dyn Backend>> {
        match self {
            Place::File(path) if !path.exists() => Ok(Arc::new(Engine::memory())),
            place => place.open_source().await,
        }
    }
}

pub(crate) async fn open_server(url: &str) -> Result<Arc<dyn Backend>> {
    match cfg!(feature = "mongodb") {
        true => backend::open(url).await.map_err(Failure::opening),
        false => Err(Failure::Usage(
            "this program was built without the feature mongodb of odm-cli, so it cannot connect to MongoDB".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_a_server() {
        let place = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(place("shop.odm"), Place::File("shop.odm".into()));
        assert_eq!(place("odm:shop.odm"), Place::File("shop.odm".into()));
        assert_eq!(place("mongodb:shop"), Place::File("mongodb:shop".into()));
        let url = "mongodb+srv://me:p%40ss@host/shop?w=1";
        assert_eq!(place(url), Place::Server(url.into()));
        assert_eq!(place(url).database_name().as_deref(), Some("shop"));
    }
}
