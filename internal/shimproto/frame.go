package shimproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"berth/internal/base/fault"
)

// MaxFrame bounds a frame, so that a broken peer cannot make the other side allocate what it likes. It holds the
// largest argument list and environment that Linux accepts by default.
const MaxFrame = 8 << 20

// MaxChunk is how much of a stream one frame carries.
const MaxChunk = 32 << 10

// Write sends a frame with a message; a nil message is an empty payload.
func Write(w io.Writer, t Type, m Message) error {
	var payload []byte
	if m != nil {
		payload = Marshal(m)
	}
	return WriteRaw(w, t, payload)
}

// WriteRaw sends a frame in one write, so that frames of several writers who share a lock stay whole.
func WriteRaw(w io.Writer, t Type, payload []byte) error {
	if len(payload) >= MaxFrame {
		return fault.New(fault.Exhausted, "send", "a frame to the shim",
			fmt.Sprintf("%d bytes are more than the limit of %d", len(payload), MaxFrame))
	}
	buf := make([]byte, 0, 5+len(payload))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(payload)+1))
	buf = append(buf, byte(t))
	buf = append(buf, payload...)
	_, err := w.Write(buf)
	return err
}

// Read receives a frame. io.EOF means that the peer ended the connection between two frames.
func Read(r io.Reader) (Type, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size == 0 || size > MaxFrame {
		return 0, nil,
			fault.New(fault.Invalid, "receive", "a frame", fmt.Sprintf("its length is given as %d bytes", size))
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return 0, nil, whole(err)
	}
	payload := make([]byte, size-1)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, whole(err)
	}
	return Type(head[4]), payload, nil
}

// whole turns the end of the stream within a frame into an error of its own.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Fault is an error on its way to the other side.
type Fault struct {
	Kind fault.Kind
	Text string
	Hint string
}

// FaultOf makes the frame's form of an error.
func FaultOf(err error) *Fault { return &Fault{Kind: fault.KindOf(err), Text: err.Error()} }

// Err is the error again, with its kind.
func (f *Fault) Err() error {
	return &fault.Error{Kind: f.Kind, Hint: f.Hint, Err: errors.New(f.Text)}
}

func (f *Fault) table(c *codec) {
	number(c, 1, &f.Kind)
	text(c, 2, &f.Text)
	text(c, 3, &f.Hint)
}
