//! Stateless resets (RFC 9000, 10.3): a restarted task ends its earlier incarnation's connections.
//!
//! The new incarnation has the same private key, and derives from it the tokens that prove its
//! right to end the old connections. So a peer that had dialed the earlier incarnation learns of
//! the restart when it next sends a packet, and not by silence. (A peer which that incarnation had
//! dialed has no such token: only a server sends one with its first connection id.)

use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::{CryptoError, HmacKey};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use rustls::crypto::aws_lc_rs;
use rustls::crypto::tls13::{Hkdf, OkmBlock};

use super::super::certificates::Identity;

/// The purpose of the derived key, so that it equals no other derived key.
const PURPOSE: &[u8] = b"trainyard stateless reset";
/// The length of a tag \[bytes\]: SHA-256.
const TAG: usize = 32;
/// The length of a connection id \[bytes\]: enough that none can be guessed.
const CONNECTION_ID: usize = 8;

/// The endpoint's settings, with reset tokens that are derived from the key of `identity`.
pub(super) fn endpoint_config(identity: &Identity) -> EndpointConfig {
    let key = hkdf().hmac_sign(&OkmBlock::new(PURPOSE), identity.key().secret_der());
    let mut config = EndpointConfig::new(Arc::new(ResetKey(OkmBlock::new(key.as_ref()))));
    // Not quinn's default ids: they contain a hash with a random key, so another incarnation would
    // ignore packets with them.
    config.cid_generator(|| Box::new(Names));
    config
}

fn hkdf() -> &'static dyn Hkdf {
    let suite = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
    suite.expect("a cipher suite of TLS 1.3 is one").hkdf_provider
}

struct ResetKey(OkmBlock);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(hkdf().hmac_sign(&self.0, data).as_ref());
    }

    fn signature_len(&self) -> usize {
        TAG
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let differing = hkdf()
            .hmac_sign(&self.0, data)
            .as_ref()
            .iter()
            .zip(signature)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        if differing == 0 && signature.len() == TAG { Ok(()) } else { Err(CryptoError) }
    }
}

/// Random connection ids.
struct Names;

impl ConnectionIdGenerator for Names {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut name = [0; CONNECTION_ID];
        let filled = aws_lc_rs::default_provider().secure_random.fill(&mut name);
        filled.expect("the endpoint was made with randomness");
        ConnectionId::new(&name)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
