//! Authentication by SCRAM-SHA-256 (RFC 5802 and RFC 7677), the side of the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::{CommandError, Result, code};

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// The rounds of the password hash, as on MongoDB.
const ROUNDS: u32 = 15_000;
const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 28;
const NONCE_BYTES: usize = 24;

type Key = [u8; KEY_BYTES];

/// A user with the keys of the password. The password cannot be computed from the keys.
#[derive(Clone)]
pub(crate) struct Credentials {
    user: String,
    salt: [u8; SALT_BYTES],
    stored_key: Key,
    server_key: Key,
}

/// An authentication in progress.
pub(crate) struct Conversation {
    credentials: Credentials,
    is_known_user: bool,
    /// The first message of the client, without the header of the channel.
    client_first: String,
    server_first: String,
    nonce: String,
    /// The channel header of the first message, which the client repeats.
    channel: String,
}

impl Credentials {
    pub(crate) fn user_name(&self) -> &str {
        &self.user
    }

    /// Computes the keys of a user.
    ///
    /// # Errors
    /// The name is empty, or the password has characters that SASLprep prohibits.
    pub(crate) fn new(user: &str, password: &str) -> Result<Credentials, String> {
        if user.is_empty() || password.is_empty() {
            return Err("a user needs a name and a password".to_owned());
        }
        let password = stringprep::saslprep(password);
        let password = password.map_err(|error| format!("the password is not valid: {error}"))?;
        let salt: [u8; SALT_BYTES] = rand::random();
        let mut salted = Key::default();
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, ROUNDS, &mut salted);
        let client_key = hmac(&salted, "Client Key");
        Ok(Credentials {
            user: user.to_owned(),
            salt,
            stored_key: Sha256::digest(client_key).into(),
            server_key: hmac(&salted, "Server Key"),
        })
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }
}

impl Conversation {
    /// Answers the first message of a client.
    ///
    /// # Errors
    /// The message is malformed.
    pub(crate) fn begin(
        credentials: &Credentials,
        message: &[u8],
    ) -> Result<(Conversation, String)> {
        let message = to_text(message)?;
        // The header of the channel: no channel binding, and no other authorized user.
        let (channel, client_first) = ["n,,", "y,,"]
            .into_iter()
            .find_map(|header| Some((header, message.strip_prefix(header)?)))
            .ok_or_else(malformed)?;
        let (name, rest) = client_first.split_once(',').ok_or_else(malformed)?;
        let name = name.strip_prefix("n=").ok_or_else(malformed)?;
        let name = name.replace("=2C", ",").replace("=3D", "=");
        let client_nonce = rest.strip_prefix("r=").ok_or_else(malformed)?;
        if client_nonce.is_empty() || client_nonce.contains(',') {
            return Err(malformed());
        }
        let server_nonce: [u8; NONCE_BYTES] = rand::random();
        let nonce = format!("{client_nonce}{}", BASE64.encode(server_nonce));
        let server_first = format!("r={nonce},s={},i={ROUNDS}", BASE64.encode(credentials.salt));
        let conversation = Conversation {
            // An unknown user fails at the proof, so a client cannot find out the names of users.
            is_known_user: name == credentials.user,
            credentials: credentials.clone(),
            client_first: client_first.to_owned(),
            server_first: server_first.clone(),
            nonce,
            channel: BASE64.encode(channel),
        };
        Ok((conversation, server_first))
    }

    /// Checks the proof of the client. Returns the proof of the server.
    ///
    /// # Errors
    /// The message is malformed, or the proof is wrong.
    pub(crate) fn finish(self, message: &[u8]) -> Result<String> {
        let message = to_text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or_else(malformed)?;
        let expected = format!("c={},r={}", self.channel, self.nonce);
        if without_proof != expected {
            return Err(failed());
        }
        let proof = BASE64.decode(proof).map_err(|_| malformed())?;
        let proof: Key = proof.try_into().map_err(|_| malformed())?;
        let signed = format!(
            "{},{},{without_proof}",
            self.client_first, self.server_first
        );
        let signature = hmac(&self.credentials.stored_key, &signed);
        let mut client_key = proof;
        for (byte, signature) in client_key.iter_mut().zip(signature) {
            *byte ^= signature;
        }
        let is_right: bool = Sha256::digest(client_key)
            .ct_eq(&self.credentials.stored_key)
            .into();
        if !is_right || !self.is_known_user {
            return Err(failed());
        }
        let proof = hmac(&self.credentials.server_key, &signed);
        Ok(format!("v={}", BASE64.encode(proof)))
    }
}

fn hmac(key: &Key, message: &str) -> Key {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    hmac.update(message.as_bytes());
    hmac.finalize().into_bytes().into()
}

fn to_text(message: &[u8]) -> Result<&str> {
    std::str::from_utf8(message).map_err(|_| malformed())
}

fn malformed() -> CommandError {
    let message = "the message of SCRAM-SHA-256 is malformed";
    CommandError::new(code::PROTOCOL_ERROR, message)
}

fn failed() -> CommandError {
    CommandError::new(code::AUTHENTICATION_FAILED, "Authentication failed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client of the exchange, with the password as typed.
    fn client_proof(password: &str, client_first: &str, server_first: &str) -> String {
        let field = |name: &str| {
            let mut fields = server_first.split(',');
            fields.find_map(|field| field.strip_prefix(name)).unwrap()
        };
        let salt = BASE64.decode(field("s=")).unwrap();
        let rounds = field("i=").parse().unwrap();
        let mut salted = Key::default();
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, rounds, &mut salted);
        let without_proof = format!("c=biws,r={}", field("r="));
        let signed = format!("{client_first},{server_first},{without_proof}");
        let mut proof = hmac(&salted, "Client Key");
        let stored_key: Key = Sha256::digest(proof).into();
        for (byte, signature) in proof.iter_mut().zip(hmac(&stored_key, &signed)) {
            *byte ^= signature;
        }
        format!("{without_proof},p={}", BASE64.encode(proof))
    }

    fn authenticate(user: &str, password: &str) -> Result<String> {
        let credentials = Credentials::new("ada,=", "secret").unwrap();
        let client_first = format!("n={user},r=abc");
        let first = format!("n,,{client_first}");
        let (conversation, server_first) = Conversation::begin(&credentials, first.as_bytes())?;
        let last = client_proof(password, &client_first, &server_first);
        conversation.finish(last.as_bytes())
    }

    #[test]
    fn only_the_right_user_and_password_authenticate() {
        assert!(
            authenticate("ada=2C=3D", "secret")
                .unwrap()
                .starts_with("v=")
        );
        for (user, password) in [("ada=2C=3D", "Secret"), ("eve", "secret")] {
            let error = authenticate(user, password).unwrap_err();
            assert_eq!(error.code(), code::AUTHENTICATION_FAILED);
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        let credentials = Credentials::new("ada", "secret").unwrap();
        for message in [
            "",
            "n,,",
            "n,,n=ada",
            "n,,n=ada,r=",
            "p=tls,,n=ada,r=a",
            "n,,n=ada,r=a,b",
        ] {
            assert!(
                Conversation::begin(&credentials, message.as_bytes()).is_err(),
                "{message}"
            );
        }
        for message in ["", "c=biws", "c=biws,r=abc,p=", "c=biws,r=other,p=AAAA"] {
            let (conversation, _) = Conversation::begin(&credentials, b"n,,n=ada,r=abc").unwrap();
            assert!(
                conversation.finish(message.as_bytes()).is_err(),
                "{message}"
            );
        }
        assert!(Credentials::new("ada", "").is_err());
    }
}
