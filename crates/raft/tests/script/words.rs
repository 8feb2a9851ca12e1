//! One command line: words in their order, then `name=value` options in any.
//!
//! Every word must be asked for: a misspelt option fails the script instead of meaning nothing.

use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span};
use quorate_raft::{Decree, KRAFT_VERSIONS, Voter};
use std::collections::{BTreeMap, VecDeque};

pub struct Words<'a> {
    line: &'a str,
    words: VecDeque<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub fn of(line: &'a str) -> Words<'a> {
        let (options, words): (Vec<_>, Vec<_>) =
            line.split_whitespace().partition(|word| word.contains('='));
        let options = options.into_iter().filter_map(|word| word.split_once('=')).collect();
        Words { line, words: words.into(), options }
    }

    /// Nothing may be left over.
    pub fn end(&self) {
        assert!(self.words.is_empty(), "not understood: {:?} in `{}`", self.words, self.line);
        assert!(self.options.is_empty(), "not understood: {:?} in `{}`", self.options, self.line);
    }

    pub fn word(&mut self) -> &'a str {
        self.words.pop_front().unwrap_or_else(|| panic!("`{}` ends too early", self.line))
    }

    pub fn option(&mut self, name: &str) -> Option<&'a str> {
        self.options.remove(name)
    }

    fn parse<T: std::str::FromStr>(&self, word: &str) -> T {
        word.parse().unwrap_or_else(|_| panic!("`{word}` is no number in `{}`", self.line))
    }

    pub fn number(&mut self, name: &str) -> Option<u64> {
        self.option(name).map(|word| self.parse(word))
    }

    pub fn numbers(&mut self, name: &str) -> Vec<u32> {
        let list = self.option(name);
        list.map_or(Vec::new(), |list| list.split(',').map(|word| self.parse(word)).collect())
    }

    pub fn epoch(&mut self, name: &str) -> Option<Epoch> {
        self.number(name).map(|epoch| Epoch(epoch as u32))
    }

    /// `-` is none.
    pub fn maybe(&mut self, name: &str) -> Option<Option<u64>> {
        let word = self.option(name)?;
        Some(if word == "-" { None } else { Some(self.parse(word)) })
    }

    pub fn id(&mut self) -> ReplicaId {
        let word = self.word();
        ReplicaId(self.parse(word))
    }

    pub fn ids(&mut self) -> Vec<ReplicaId> {
        let word = self.word();
        word.split(',').map(|id| ReplicaId(self.parse(id))).collect()
    }

    /// `disk 3`
    pub fn disk(&mut self) -> ReplicaId {
        assert_eq!(self.word(), "disk", "in `{}`", self.line);
        self.id()
    }

    /// `1->2`
    pub fn link(&mut self) -> (ReplicaId, ReplicaId) {
        self.maybe_link()
            .unwrap_or_else(|| panic!("a link like 1->2 is missing in `{}`", self.line))
    }

    pub fn maybe_link(&mut self) -> Option<(ReplicaId, ReplicaId)> {
        let (from, to) = self.words.front()?.split_once("->")?;
        self.words.pop_front();
        Some((ReplicaId(self.parse(from)), ReplicaId(self.parse(to))))
    }

    /// `1 <- 9`: to whom and from whom.
    pub fn arrow(&mut self) -> (ReplicaId, ReplicaId) {
        let to = self.id();
        assert_eq!(self.word(), "<-", "in `{}`", self.line);
        (to, self.id())
    }

    /// `500ms`
    pub fn span(&mut self) -> Span {
        let word = self.word();
        let number = word.strip_suffix("ms").unwrap_or_else(|| panic!("`{word}` has no ms"));
        Span::ms(self.parse(number))
    }

    /// `4@2`: an end, and the epoch below it.
    pub fn end_epoch(&self, word: &str) -> OffsetEpoch {
        let (end, epoch) = word.split_once('@').unwrap_or_else(|| panic!("`{word}` has no @"));
        OffsetEpoch::new(Offset(self.parse(end)), Epoch(self.parse(epoch)))
    }

    pub fn ends(&mut self, name: &str) -> Vec<OffsetEpoch> {
        let list = self.option(name);
        list.map_or(Vec::new(), |list| list.split(',').map(|word| self.end_epoch(word)).collect())
    }

    /// `v1=1:own+2:own`: a version of kraft.version and voters; `v1` and `=1:own` are one of them.
    pub fn decree(&self, word: &str) -> Decree {
        let (version, voters) = match word.split_once('=') {
            Some((version, voters)) => (version, Some(voters)),
            None => (word, None),
        };
        let voter = |word: &str| {
            let mut voter = Voter::fixed(self.key_of(word), [].into());
            voter.versions = KRAFT_VERSIONS;
            voter
        };
        Decree {
            version: version.strip_prefix('v').map(|version| self.parse(version)),
            voters: voters
                .map(|list| list.split('+').filter(|word| !word.is_empty()).map(voter).collect()),
        }
    }

    /// `3` is an id alone, `3:own` that node's own directory, `3:other` another one.
    pub fn key(&mut self, name: &str) -> Option<ReplicaKey> {
        let word = self.option(name)?;
        Some(self.key_of(word))
    }

    pub fn key_of(&self, word: &str) -> ReplicaKey {
        let (id, directory) = word.split_once(':').unwrap_or((word, ""));
        let id = ReplicaId(self.parse(id));
        match directory {
            "" => ReplicaKey::new(id, None),
            "own" => crate::cluster::key(id),
            "other" => ReplicaKey::new(id, Some(quorate_base::Uuid([0xee; 16]))),
            other => panic!("no such directory: {other}"),
        }
    }
}
