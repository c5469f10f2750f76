//! Thrift's compact protocol, read into a tree: the encoding of Parquet's footer and page headers.
//!
//! Nothing is trusted: lists grow as their elements arrive, nesting is bounded, and every error is a value. Source: the
//! Apache Thrift specification "Thrift Compact protocol encoding".

/// One value. Numbers of all widths are one variant; doubles and maps are skipped.
#[derive(Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Int(i64),
    Bool(bool),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Struct(Struct<'a>),
    Ignored,
}

/// A struct's fields by their number.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Struct<'a>(Vec<(i16, Value<'a>)>);

impl<'a> Struct<'a> {
    fn get(&self, id: i16) -> Option<&Value<'a>> {
        self.0.iter().find(|(field, _)| *field == id).map(|(_, value)| value)
    }
    pub(crate) fn int(&self, id: i16) -> Option<i64> {
        if let Value::Int(value) = self.get(id)? { Some(*value) } else { None }
    }
    pub(crate) fn bool(&self, id: i16) -> Option<bool> {
        if let Value::Bool(value) = self.get(id)? { Some(*value) } else { None }
    }
    pub(crate) fn bytes(&self, id: i16) -> Option<&'a [u8]> {
        if let Value::Bytes(value) = self.get(id)? { Some(value) } else { None }
    }
    pub(crate) fn list(&self, id: i16) -> Option<&[Value<'a>]> {
        if let Value::List(value) = self.get(id)? { Some(value) } else { None }
    }
    pub(crate) fn structs(&self, id: i16) -> impl Iterator<Item = &Struct<'a>> {
        let list = self.list(id).unwrap_or(&[]);
        list.iter().filter_map(|value| if let Value::Struct(inner) = value { Some(inner) } else { None })
    }
    pub(crate) fn inner(&self, id: i16) -> Option<&Struct<'a>> {
        if let Value::Struct(value) = self.get(id)? { Some(value) } else { None }
    }
}

/// Why a tree cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThriftError {
    /// The bytes end inside a value.
    CutOff,
    /// A byte is invalid at its position.
    Garbage,
}

const DEPTH_MAX: u32 = 24;

/// Reads the struct at the start of `input`. Returns it and its length in bytes.
pub(crate) fn read_struct(input: &[u8]) -> Result<(Struct<'_>, usize), ThriftError> {
    let mut cursor = Cursor { input, at: 0 };
    let value = cursor.structure(0)?;
    Ok((value, cursor.at))
}

struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, ThriftError> {
        let byte = *self.input.get(self.at).ok_or(ThriftError::CutOff)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ThriftError> {
        let end = self.at.checked_add(len).ok_or(ThriftError::CutOff)?;
        let taken = self.input.get(self.at..end).ok_or(ThriftError::CutOff)?;
        self.at = end;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ThriftError::Garbage)
    }

    fn zigzag(&mut self) -> Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    fn structure(&mut self, depth: u32) -> Result<Struct<'a>, ThriftError> {
        let mut fields = Vec::new();
        let mut last_id = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(Struct(fields));
            }
            let id = match head >> 4 {
                0 => i16::try_from(self.zigzag()?).map_err(|_| ThriftError::Garbage)?,
                delta => last_id.checked_add(i16::from(delta)).ok_or(ThriftError::Garbage)?,
            };
            last_id = id;
            let value = match head & 0x0f {
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                kind => self.value(kind, depth)?,
            };
            fields.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Result<Value<'a>, ThriftError> {
        if depth > DEPTH_MAX {
            return Err(ThriftError::Garbage);
        }
        Ok(match kind {
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::Int(i64::from(self.byte()?.cast_signed())),
            4..=6 => Value::Int(self.zigzag()?),
            7 => self.take(8).map(|_| Value::Ignored)?,
            8 => {
                let len = usize::try_from(self.varint()?).map_err(|_| ThriftError::CutOff)?;
                Value::Bytes(self.take(len)?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                // Each element takes a byte at least, so `len` cannot exceed what is left.
                if len > (self.input.len() - self.at) as u64 {
                    return Err(ThriftError::CutOff);
                }
                let mut list = Vec::new();
                for _ in 0..len {
                    list.push(self.value(head & 0x0f, depth + 1)?);
                }
                Value::List(list)
            }
            11 => {
                let len = self.varint()?;
                let kinds = if len == 0 { 0 } else { self.byte()? };
                if len > (self.input.len() - self.at) as u64 {
                    return Err(ThriftError::CutOff);
                }
                for _ in 0..len {
                    self.value(kinds >> 4, depth + 1)?;
                    self.value(kinds & 0x0f, depth + 1)?;
                }
                Value::Ignored
            }
            12 => Value::Struct(self.structure(depth + 1)?),
            _ => return Err(ThriftError::Garbage),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_struct_worked_by_hand() {
        // field 1: i32 7 (0x15, zigzag 14); field 3 (+2): binary "ab"; field 4: true; field 6 (+2): list of 2 i64 (1, -1);
        // field 20 (long form, zigzag 40): struct {}.
        let bytes = [0x15, 14, 0x28, 2, b'a', b'b', 0x11, 0x29, 0x26, 2, 1, 0x0c, 40, 0, 0, 99];
        let (value, len) = read_struct(&bytes).unwrap();
        assert_eq!(len, 15);
        assert_eq!((value.int(1), value.bytes(3), value.bool(4)), (Some(7), Some(&b"ab"[..]), Some(true)));
        assert_eq!(value.list(6), Some(&[Value::Int(1), Value::Int(-1)][..]));
        assert_eq!(value.inner(20), Some(&Struct::default()));
        for cut in 0..15 {
            assert_eq!(read_struct(&bytes[..cut]), Err(ThriftError::CutOff), "cut at {cut}");
        }
    }

    #[test]
    fn deep_nesting_and_huge_lists_are_refused() {
        assert_eq!(read_struct(&[0x1c; 4096]), Err(ThriftError::Garbage));
        assert_eq!(read_struct(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(ThriftError::CutOff));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_struct(&bytes);
        }
    }
}
