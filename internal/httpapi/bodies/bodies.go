// Package bodies owns the memory that the bodies of requests take: how much of it all of them have together, and how
// much those of one client. Only httpapi imports it.
package bodies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Small is how long a body is, in bytes, that is read in any case: it takes no more memory than its connection. Of
// longer ones what has arrived is counted until they are answered.
const Small = 16 << 10

// Bounds of what has arrived of the bodies that are not small, in bytes. One client has at most half of all, so that
// another always gets through.
const (
	total     = 128 << 20
	perClient = total / 2
)

// Store counts the bodies that are in memory.
type Store struct {
	total, perClient int64

	mu  sync.Mutex
	all int64
	of  map[string]int64 // by client
}

// New returns a store without any.
func New() *Store { return within(total, perClient) }

func within(total, perClient int64) *Store {
	return &Store{total: total, perClient: perClient, of: map[string]int64{}}
}

// TooMany says that a body does not fit beside the others that are in memory.
type TooMany struct {
	MiB       int64 // of all together
	OfAClient bool  // those are of the one client, and not of all of them
}

func (e *TooMany) Error() string {
	whose := "all clients of this agent"
	if e.OfAClient {
		whose = "this client"
	}
	return fmt.Sprintf("the request's body does not fit: those of %s may have %d MiB together; send it again when "+
		"others are answered", whose, e.MiB)
}

// take counts so many bytes more of a client.
func (s *Store) take(client string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[client]+n > s.perClient:
		return &TooMany{s.perClient >> 20, true}
	case s.all+n > s.total:
		return &TooMany{s.total >> 20, false}
	}
	s.all += n
	s.of[client] += n
	return nil
}

func (s *Store) give(client string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all -= n
	if s.of[client] -= n; s.of[client] == 0 {
		delete(s.of, client)
	}
}

// Body is the place of one request's body.
type Body struct {
	store  *Store
	client string
	may    func() error
	taken  int64
}

type key struct{}

// With is the context of a request that keeps its body in the store. May asks whether the client may send one that is
// not small: whoever can have no use for it is refused before it is read. Release ends what the body takes.
func (s *Store) With(ctx context.Context, client string, may func() error) (_ context.Context, release func()) {
	b := &Body{store: s, client: client, may: may}
	return context.WithValue(ctx, key{}, b), func() { s.give(client, b.taken) }
}

// Read reads the body of the request of a context. Its memory grows with what arrives, whatever was announced; what was
// announced (-1: nothing) bounds how far it grows beyond that.
func Read(ctx context.Context, r io.Reader, announced int64) ([]byte, error) {
	b, kept := ctx.Value(key{}).(*Body)
	if !kept {
		return nil, errors.New("the request has no place for its body")
	}
	buf := make([]byte, 0, Small)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		}
		if len(buf) == cap(buf) {
			if buf, err = b.grown(buf, announced); err != nil {
				return nil, err
			}
		}
	}
}

// grown gives what has arrived twice the room, and at most that for the whole body with the byte by which its end is
// seen.
func (b *Body) grown(buf []byte, announced int64) ([]byte, error) {
	if b.taken == 0 {
		if err := b.may(); err != nil {
			return nil, err
		}
	}
	size := 2 * int64(cap(buf))
	if whole := announced + 1; whole > int64(cap(buf)) {
		size = min(size, whole)
	}
	if err := b.store.take(b.client, size-b.taken); err != nil {
		return nil, err
	}
	b.taken = size
	return append(make([]byte, 0, size), buf...), nil
}
