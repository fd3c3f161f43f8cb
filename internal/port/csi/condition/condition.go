// Package condition owns how the health of a volume is read, which plugins of specification 1.12 and older put into
// their answers. Only port/csi imports it.
package condition

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Condition is the health that plugins of specification 1.12 and older answer. It is for display only.
type Condition struct {
	Abnormal bool
	Message  string // as the plugin wrote it
}

// field is the number of VolumeCondition in NodeGetVolumeStatsResponse and in the VolumeStatus messages of
// specification 1.12 and older. Version 1.13 dropped it, so it arrives as an unknown field; the plugins that send it
// are the ones in the field.
const field = 2

// Of reads the volume condition out of the unknown fields of a message; nil when there is none or when it
// cannot be read, for it is display only.
func Of(m proto.Message) *Condition {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	var out *Condition
	rest := []byte(m.ProtoReflect().GetUnknown())
	for len(rest) > 0 {
		num, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil
		}
		rest = rest[n:]
		if num == field && kind == protowire.BytesType {
			body, n := protowire.ConsumeBytes(rest)
			if n < 0 {
				return nil
			}
			if out = decode(body); out == nil {
				return nil
			}
			rest = rest[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, kind, rest); n < 0 {
			return nil
		}
		rest = rest[n:]
	}
	return out
}

// decode reads VolumeCondition{bool abnormal = 1; string message = 2}.
func decode(b []byte) *Condition {
	out := &Condition{}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		switch {
		case num == 1 && kind == protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return nil
			}
			out.Abnormal, b = protowire.DecodeBool(v), b[n:]
		case num == 2 && kind == protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil
			}
			out.Message, b = string(v), b[n:]
		default:
			if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
				return nil
			}
			b = b[n:]
		}
	}
	return out
}
