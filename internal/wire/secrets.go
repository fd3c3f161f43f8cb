package wire

import (
	"fmt"
	"io"
	"log/slog"

	"berth/internal/base/redact"
)

// Secrets carries revealed secrets over the wire, between authenticated halves only. It encodes in clear and formats
// masked; it must never be part of a Raft command or of anything stored.
type Secrets struct {
	Values map[string]string
}

// Seal takes secrets onto the wire.
func Seal(m redact.Map) Secrets { return Secrets{Values: m.Reveal()} }

// Open takes them off the wire.
func (s Secrets) Open() redact.Map { return redact.MapOf(s.Values) }

func (s Secrets) String() string {
	if len(s.Values) == 0 {
		return ""
	}
	return redact.Mask
}

// Format masks every verb.
func (s Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalJSON masks JSON.
func (s Secrets) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// LogValue masks slog.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }
