// Package savefile owns the form of a saved state of the servers: a compressed tar with a description, the state, and
// the checksums of both. The servers write and read it, the command line looks at it. It knows nothing of what the
// state holds.
package savefile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"berth/internal/base/fault"
)

// Format is the number of this form.
const Format = 1

// MaxState bounds the state in a file, in bytes.
const MaxState = 1 << 30

// Members of the archive.
const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"
)

// Meta describes a saved state.
type Meta struct {
	Format      int
	Program     string // what wrote it
	Time        time.Time
	ClusterID   string
	Incarnation string
	Mark        string
	Index       uint64
	Schema      uint64
	Counts      map[string]int // objects by kind
	Size        int            // of the state, in bytes
	// Holders are who can open the secrets in it: servers, and recovery keys that people keep.
	Holders []string `json:",omitempty"`
}

// Encode writes a saved state. One that Decode would not read is refused: nobody shall find that out when he needs it.
func Encode(m Meta, state []byte) ([]byte, error) { return encode(m, state, MaxState) }

func encode(m Meta, state []byte, most int) ([]byte, error) {
	if len(state) > most {
		return nil, fault.WithHint(
			fault.New(fault.Exhausted, "save", "the servers' state",
				fmt.Sprintf("%s has %d bytes, and a file holds %d", stateName, len(state), most)),
			`nothing was written, and the servers go on; have them forget what is over: "berth system gc"`)
	}
	m.Format, m.Size = Format, len(state)
	meta, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "write", "a saved state")
	}
	sums := fmt.Sprintf("%s  %s\n%s  %s\n", sum(meta), metaName, sum(state), stateName)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range []struct {
		name string
		data []byte
	}{{metaName, meta}, {stateName, state}, {sumsName, []byte(sums)}} {
		h := &tar.Header{
			Name:    f.name,
			Mode:    0o600,
			Size:    int64(len(f.data)),
			ModTime: m.Time,
			Format:  tar.FormatPAX,
		}
		if err = t.WriteHeader(h); err == nil {
			_, err = t.Write(f.data)
		}
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "write", "a saved state")
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "write", "a saved state")
	}
	return out.Bytes(), nil
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// Decode reads a saved state and holds it against its checksums.
func Decode(r io.Reader) (Meta, []byte, error) {
	var m Meta
	refuse := func(text string) (Meta, []byte, error) {
		return Meta{}, nil, fault.WithHint(fault.New(fault.Invalid, "read", "the saved state", text),
			"use a file that \"berth operator snapshot save\" has written, whole")
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return refuse("it is no saved state: " + err.Error())
	}
	parts := map[string][]byte{}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return refuse("it is damaged: " + err.Error())
		}
		if h.Size > MaxState {
			return Meta{}, nil, fault.New(fault.Exhausted, "read", "the saved state",
				fmt.Sprintf("%q in it has %d bytes, and this program reads %d", h.Name, h.Size, MaxState))
		}
		data, err := io.ReadAll(io.LimitReader(t, h.Size))
		if err != nil {
			return refuse("it is damaged: " + err.Error())
		}
		parts[h.Name] = data
	}
	if _, err := io.Copy(io.Discard, z); err != nil { // to its end, where its own checksum is
		return refuse("it is damaged: " + err.Error())
	}
	meta, state := parts[metaName], parts[stateName]
	want := fmt.Sprintf("%s  %s\n%s  %s\n", sum(meta), metaName, sum(state), stateName)
	if string(parts[sumsName]) != want {
		return refuse("its checksums do not match what it holds")
	}
	if err := json.Unmarshal(meta, &m); err != nil {
		return refuse("its description can't be read: " + err.Error())
	}
	if m.Format != Format {
		return refuse(fmt.Sprintf("its form is %d, this program reads %d", m.Format, Format))
	}
	return m, state, nil
}
