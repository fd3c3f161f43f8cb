// Package statefile owns how the servers' state travels over HTTP as a file: handed out with its digest, and taken back
// piece by piece. Only httpapi imports it.
package statefile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"

	"berth/internal/wire"
)

// chunk is how much of a file is sent on at once, in bytes.
const chunk = 1 << 20

// Send writes the servers' state, with its digest.
func Send(ctx context.Context, w http.ResponseWriter, servers wire.Conn) error {
	stream, err := wire.StateSave.Open(ctx, servers, &wire.Empty{})
	if err != nil {
		return err
	}
	var file bytes.Buffer
	for {
		c, err := stream.Recv()
		if err != nil {
			return err
		}
		file.Write(c.Data)
		if c.Last {
			break
		}
	}
	sum := sha256.Sum256(file.Bytes())
	h := w.Header()
	h.Set("Content-Type", "application/x-gzip")
	h.Set("Content-Length", strconv.Itoa(file.Len()))
	h.Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum[:]))
	_, _ = w.Write(file.Bytes()) // nobody is there to read it if that fails
	return nil
}

// CutOff is the error of an upload that did not come whole.
type CutOff struct{ Err error }

func (c *CutOff) Error() string { return c.Err.Error() }

// Unwrap is what reading it ended with.
func (c *CutOff) Unwrap() error { return c.Err }

// Take has the servers replace their state by a file, and returns the index of that. What did not come whole is a
// *CutOff.
func Take(ctx context.Context, file io.Reader, servers wire.Conn, word *wire.RecoveryWord) (uint64, error) {
	stream, err := wire.StateRestore.Open(ctx, servers, word)
	if err != nil {
		return 0, err
	}
	for last := false; !last; {
		part, err := io.ReadAll(io.LimitReader(file, chunk))
		if err != nil {
			return 0, &CutOff{err}
		}
		last = len(part) < chunk
		if err := stream.Send(&wire.StateChunk{Data: part, Last: last}); err != nil {
			break // the answer says why
		}
	}
	out, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return out.Index, nil
}
