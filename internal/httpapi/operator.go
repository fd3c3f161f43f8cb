package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/base/savefile"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/nodestore"
	"berth/internal/wire"
)

var recoveryStatus = read(wire.RecoveryStatus, (*request).whole, func(_ *request, out *wire.RecoveryView) (any, error) {
	return convert.Recovery(out), nil
})

// recoveryWord reads what a person says about the servers' state, and who says it.
func recoveryWord(r *request) (*wire.RecoveryWord, error) {
	var body api.RecoveryRequest
	if err := r.readOptional(&body); err != nil {
		return nil, err
	}
	return &wire.RecoveryWord{Node: ids.Node(body.NodeID), Reason: body.Reason, By: access.Peer(r.Request)}, nil
}

var (
	recoveryBegin   = write(wire.RecoveryBegin, recoveryWord, empty)
	recoveryFinish  = write(wire.RecoveryFinish, recoveryWord, empty)
	recoveryDismiss = write(wire.RecoveryDismiss, func(r *request) (*wire.RecoveryWord, error) {
		word, err := recoveryWord(r)
		if err != nil {
			return nil, err
		}
		return word, wholeID("node", string(word.Node))
	}, empty)
)

// maxSaved bounds a saved state that is sent to be restored, in bytes.
const maxSaved = savefile.MaxState

// snapshotSave sends the servers' state as a file, with its digest.
func (s *Server) snapshotSave(w http.ResponseWriter, r *request) error {
	stream, err := wire.StateSave.Open(r.Context(), s.cfg.Servers, &wire.Empty{})
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

func (s *Server) nodeStore(w http.ResponseWriter, _ *request) error {
	return nodestore.Send(w, s.cfg.NodeStore)
}

// restoreChunk is how much of a file is sent on at once.
const restoreChunk = 1 << 20

// snapshotRestore replaces the servers' state by a saved one.
func (s *Server) snapshotRestore(w http.ResponseWriter, r *request) error {
	stream, err := wire.StateRestore.Open(r.Context(), s.cfg.Servers,
		&wire.RecoveryWord{By: access.Peer(r.Request), Reason: r.arg("reason")})
	if err != nil {
		return err
	}
	for last := false; !last; {
		part, err := io.ReadAll(io.LimitReader(r.Body, restoreChunk))
		if err != nil { // the upload was cut off: what came is not the whole
			return unread(err)
		}
		last = len(part) < restoreChunk
		if err := stream.Send(&wire.StateChunk{Data: part, Last: last}); err != nil {
			break // the answer says why
		}
	}
	out, err := stream.Recv()
	if err != nil {
		return err
	}
	r.written(out.Index)
	r.indexes(w.Header())
	return nil
}
