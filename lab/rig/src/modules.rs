//! Kernel modules: which others one needs, and their bytes unpacked.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::RigError;

/// Modules as a guest loads them: dependencies come first.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Name and bytes.
    pub(crate) loaded: Vec<(String, Vec<u8>)>,
}

impl Modules {
    /// The modules called `names` of a kernel and all they need. Names without a module are skipped: they may be built in, and the
    /// guest reports what is missing.
    pub(crate) fn of(folder: &Path, names: &[&str]) -> Result<Self, RigError> {
        let mut paths = BTreeMap::new();
        index(folder, &mut paths)?;
        let mut modules = Self::default();
        for name in names {
            modules.add(name, &paths)?;
        }
        Ok(modules)
    }

    fn add(&mut self, name: &str, paths: &BTreeMap<String, PathBuf>) -> Result<(), RigError> {
        if self.loaded.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let Some(path) = paths.get(name) else { return Ok(()) };
        let bytes = unpacked(path)?;
        for needed in needed_by(&bytes) {
            self.add(&needed, paths)?;
        }
        self.loaded.push((name.to_owned(), bytes));
        Ok(())
    }
}

/// Finds all modules below a folder. Names are as the kernel spells them, with underscores.
fn index(folder: &Path, paths: &mut BTreeMap<String, PathBuf>) -> Result<(), RigError> {
    for entry in fs::read_dir(folder).map_err(RigError::io(folder))?.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            index(&path, paths)?;
            continue;
        }
        let file = entry.file_name();
        let Some((name, end)) = file.to_str().and_then(|file| file.split_once('.')) else { continue };
        if end == "ko" || end == "ko.xz" {
            paths.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn unpacked(path: &Path) -> Result<Vec<u8>, RigError> {
    let bytes = fs::read(path).map_err(RigError::io(path))?;
    if path.extension().is_none_or(|end| end != "xz") {
        return Ok(bytes);
    }
    let mut module = Vec::new();
    let read = lzma_rust2::XzReader::new(bytes.as_slice(), true).read_to_end(&mut module);
    read.map_err(|error| RigError::Damaged { path: path.to_owned(), reason: format!("cannot be unpacked: {error}") })?;
    Ok(module)
}

/// Value of `depends=` in a module's information, which consists of strings that end with a zero byte.
fn needed_by(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = &module[at + KEY.len()..];
    let value = &value[..value.iter().position(|&byte| byte == 0).unwrap_or(value.len())];
    let names = std::str::from_utf8(value).unwrap_or_default().split(',');
    names.filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("kernel/drivers");
        fs::create_dir_all(&below).unwrap();
        let write = |name: &str, depends: &str| {
            fs::write(below.join(name), format!("ELF\0license=GPL\0depends={depends}\0name=x\0")).unwrap();
        };
        write("zram.ko", "zs-malloc,lz4_compress");
        write("zs-malloc.ko", "");
        write("lz4_compress.ko", "zs_malloc,not_there");
        let modules = Modules::of(folder.path(), &["zram", "zram", "built_in"]).unwrap();
        let names: Vec<&str> = modules.loaded.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["zs_malloc", "lz4_compress", "zram"]);
    }

    #[test]
    fn a_damaged_module_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("zram.ko.xz"), b"\xfd7zXZ\0 not at all").unwrap();
        let error = Modules::of(folder.path(), &["zram"]).unwrap_err().to_string();
        assert!(error.contains("zram.ko.xz: cannot be unpacked"), "{error}");
    }
}
