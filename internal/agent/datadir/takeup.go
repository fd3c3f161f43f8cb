package datadir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"berth/internal/base/backup"
	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/retry"
	"berth/internal/wire"
)

const (
	// askAgain is how long servers that are not ready rest before they are asked again.
	askAgain = 100 * time.Millisecond
	// chunk is how much of a state is sent at once, in bytes.
	chunk = 1 << 20
)

// TakeUp gives the servers the state that a backup has put back beside them, if one waits, and reports whether it did.
// The node must not run before: what it remembers would be about a state that the servers do not have, and its tasks
// orphans, which nobody starts again. What waits is removed when the servers have it; an agent that ends in between
// gives it again.
func TakeUp(ctx context.Context, dir string, servers wire.Conn) (taken bool, err error) {
	path := filepath.Join(dir, backup.WaitingState)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for {
		err := give(ctx, path, servers)
		switch {
		case err == nil:
			err = errors.Join(os.Remove(path), durable.SyncDir(filepath.Dir(path)))
			return true, fault.Wrap(err, fault.Internal, "remove", path)
		case !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.NotReady):
			return false, notTakenUp(err, path)
		case !retry.Sleep(ctx, askAgain):
			return false, nil // the agent stops: the node does not start either
		}
	}
}

func notTakenUp(err error, path string) error {
	return fault.WithHint(fault.Wrap(err, fault.KindOf(err), "take up", path),
		"the state of a backup waits there for the servers; put the backup back into an empty directory, or, to "+
			"begin with the state that the servers have, move that file away")
}

// Waiting looks at the state of a backup that waits beside the servers, and changes nothing: read judges it as they do.
// there: one waits; an error is that by which TakeUp would refuse its file.
func Waiting(dir string, read func(io.Reader) error) (path string, there bool, err error) {
	path = filepath.Join(dir, backup.WaitingState)
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	case err != nil:
		return path, true, notTakenUp(err, path)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := read(f); err != nil {
		return path, true, notTakenUp(err, path)
	}
	return path, true, nil
}

func give(ctx context.Context, path string, servers wire.Conn) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	word := &wire.RecoveryWord{By: "the agent", Reason: "a backup was put back"}
	stream, err := wire.StateRestore.Open(ctx, servers, word)
	if err != nil {
		return err
	}
	for last := false; !last; {
		part := make([]byte, chunk)
		n, err := io.ReadFull(f, part)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			last = true
		case err != nil:
			return err
		}
		if err := stream.Send(&wire.StateChunk{Data: part[:n], Last: last}); err != nil {
			break // the answer says why
		}
	}
	_, err = stream.Recv()
	return err
}
