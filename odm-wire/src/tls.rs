//! Encrypted connections.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The certificate of a server with its private key.
#[derive(Clone)]
pub struct TlsIdentity {
    acceptor: TlsAcceptor,
}

impl TlsIdentity {
    /// Reads a chain of certificates and a private key from files in the form PEM.
    ///
    /// # Errors
    /// I/O. A file has no certificate or no key, or the key does not belong to the certificate.
    pub fn from_pem_files(
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> io::Result<TlsIdentity> {
        let certificates = CertificateDer::pem_reader_iter(File::open(certificates)?);
        let certificates = certificates
            .collect::<Result<Vec<_>, _>>()
            .map_err(invalid)?;
        let key = PrivateKeyDer::from_pem_reader(File::open(key)?).map_err(invalid)?;
        let configuration = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certificates, key);
        Ok(TlsIdentity {
            acceptor: TlsAcceptor::from(Arc::new(configuration.map_err(invalid)?)),
        })
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

impl std::fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
