//! SCRAM credentials (RFC 5802) for the first records of a Kafka cluster: `--add-scram`, in Kafka's
//! form `SCRAM-SHA-256=[name=alice,password=secret]`.
//!
//! Nothing here prints a password, and what is refused is named without its value.

use super::FormatError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use quorate_wire::record::metadata::UserScramCredential;
use sha2::{Digest, Sha256, Sha512};

/// Kafka's limits and default.
const ITERATIONS_LEAST: i32 = 4_096;
const ITERATIONS_MOST: i32 = 16_384;
const SALT_BYTES: usize = 24;

/// A hash that Kafka has a mechanism for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mechanism {
    Sha256,
    Sha512,
}

impl Mechanism {
    /// Kafka's number of it.
    fn number(self) -> i8 {
        match self {
            Mechanism::Sha256 => 1,
            Mechanism::Sha512 => 2,
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha256 => Sha256::digest(bytes).to_vec(),
            Mechanism::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// HMAC of the parts, one after the other.
    fn mac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
            let mut mac = <M as KeyInit>::new_from_slice(key).expect("any length is a key");
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            Mechanism::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Mechanism::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }

    /// `Hi()` of RFC 5802: PBKDF2 with one block.
    fn salted(self, password: &[u8], salt: &[u8], iterations: i32) -> Vec<u8> {
        let mut round = self.mac(password, &[salt, &[0, 0, 0, 1]]);
        let mut sum = round.clone();
        for _ in 1..iterations {
            round = self.mac(password, &[&round]);
            sum.iter_mut().zip(&round).for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    }
}

/// A credential from the command line's text; `random` fills a salt where none is given.
pub(super) fn credential(
    text: &str,
    random: impl FnOnce(&mut [u8]) -> Result<(), FormatError>,
) -> Result<UserScramCredential, FormatError> {
    let bad = |why: &str| FormatError::BadScram { why: why.to_owned() };
    let Parts { mechanism, name, password, salted, salt, iterations } = parts(text)?;
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| bad("it has no name=…"))?;
    let iterations = match iterations {
        None => ITERATIONS_LEAST,
        Some(text) => {
            let number = text.parse().ok();
            let number = number.filter(|n| (ITERATIONS_LEAST..=ITERATIONS_MOST).contains(n));
            number.ok_or_else(|| bad("iterations must be a whole number from 4096 to 16384"))?
        }
    };
    let bytes = |name: &str, text: String| {
        STANDARD.decode(text).map_err(|_| bad(&format!("{name} is not base64")))
    };
    let given = salt.map(|salt| bytes("salt", salt)).transpose()?;
    if salted.is_some() && given.is_none() {
        return Err(bad("saltedpassword needs the salt=… that it was made with"));
    }
    let salt = match given {
        Some(salt) => salt,
        None => {
            let mut salt = vec![0; SALT_BYTES];
            random(&mut salt)?;
            salt
        }
    };
    let salted = match (password, salted) {
        (Some(_), Some(_)) => return Err(bad("it has both password and saltedpassword")),
        (None, None) => return Err(bad("it has neither password=… nor saltedpassword=…")),
        (None, Some(salted)) => bytes("saltedpassword", salted)?,
        (Some(password), None) => mechanism.salted(password.as_bytes(), &salt, iterations),
    };
    Ok(UserScramCredential {
        name,
        mechanism: mechanism.number(),
        stored_key: mechanism.hash(&mechanism.mac(&salted, &[b"Client Key"])).into(),
        server_key: mechanism.mac(&salted, &[b"Server Key"]).into(),
        salt: Bytes::from(salt),
        iterations,
        ..UserScramCredential::default()
    })
}

/// What the text gives.
struct Parts {
    mechanism: Mechanism,
    name: Option<String>,
    password: Option<String>,
    salted: Option<String>,
    salt: Option<String>,
    iterations: Option<String>,
}

fn parts(text: &str) -> Result<Parts, FormatError> {
    let bad = |why: &str| FormatError::BadScram { why: why.to_owned() };
    let (mechanism, list) = text.split_once('=').ok_or_else(|| bad("there is no '='"))?;
    let mechanism = match mechanism.trim() {
        "SCRAM-SHA-256" => Mechanism::Sha256,
        "SCRAM-SHA-512" => Mechanism::Sha512,
        _ => return Err(bad("it must begin with SCRAM-SHA-256= or SCRAM-SHA-512=")),
    };
    let list = list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
    let list = list.ok_or_else(|| bad("[…] must follow the mechanism"))?;
    let (name, password, salted) = (None, None, None);
    let mut parts = Parts { mechanism, name, password, salted, salt: None, iterations: None };
    for part in split(list) {
        let (key, value) = part.split_once('=').ok_or_else(|| bad("a part has no '='"))?;
        let value = value.trim();
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = quoted.unwrap_or(value).to_owned();
        let place = match key.trim() {
            "name" => &mut parts.name,
            "password" => &mut parts.password,
            "saltedpassword" => &mut parts.salted,
            "salt" => &mut parts.salt,
            "iterations" => &mut parts.iterations,
            _ => {
                return Err(bad(
                    "a part is none of name, password, saltedpassword, salt, iterations",
                ));
            }
        };
        if place.replace(value).is_some() {
            return Err(bad("a part is given twice"));
        }
    }
    Ok(parts)
}

/// The parts between the commas that are not in quotes.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> UserScramCredential {
        credential(text, |_| panic!("a salt is given")).unwrap()
    }

    fn base64(bytes: &[u8]) -> String {
        STANDARD.encode(bytes)
    }

    /// The example of RFC 7677: the server's key is checked by its signature there.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let text = r#"SCRAM-SHA-256=[name=user,password=pencil,salt="W22ZaJ0SNY7soEsUEjb6gQ==",iterations=4096]"#;
        let made = made(text);
        let auth = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = Mechanism::Sha256.mac(&made.server_key, &[auth.as_bytes()]);
        assert_eq!(base64(&signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let client = Mechanism::Sha256.mac(&made.stored_key, &[auth.as_bytes()]);
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let key: Vec<u8> = proof.iter().zip(&client).map(|(a, b)| a ^ b).collect();
        assert_eq!(Mechanism::Sha256.hash(&key), made.stored_key);
    }

    #[test]
    fn what_is_wrong_is_said_and_no_password() {
        let long = "SCRAM-SHA-256=[name=a,password=hunter2,";
        for (text, says) in [
            ("SCRAM-SHA-256", "no '='"),
            ("SCRAM-SHA-1=[name=a,password=hunter2]", "SCRAM-SHA-512="),
            ("SCRAM-SHA-256=[name=a,password=hunter2", "must follow"),
            ("SCRAM-SHA-256=[password=hunter2]", "no name"),
            ("SCRAM-SHA-256=[name=a]", "neither password"),
            (&format!("{long}saltedpassword=YCE=,salt=YCE=]"), "both"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=YCE=]", "needs the salt"),
            (&format!("{long}foo=1]"), "none of"),
            (&format!("{long}password=x]"), "twice"),
            (&format!("{long}salt=!]"), "not base64"),
            (&format!("{long}iterations=4095]"), "4096 to 16384"),
            (&format!("{long}iterations=16385]"), "4096 to 16384"),
            ("SCRAM-SHA-256=[name=a,hunter2]", "has no '='"),
        ] {
            let why = credential(text, |_| Ok(())).unwrap_err().to_string();
            assert!(why.contains(says) && !why.contains("hunter2"), "{text}: {why}");
        }
        let quoted = made(r#"SCRAM-SHA-512=[name="a,b",password="x=y,z",salt="YCE="]"#);
        assert_eq!((quoted.name.as_str(), quoted.mechanism), ("a,b", 2));
        assert_eq!(quoted.stored_key.len(), 64);
    }
}
