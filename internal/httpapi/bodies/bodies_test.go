package bodies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func may() error { return nil }

// slow has sent a part of a body, and then fails.
func slow(n int) io.Reader {
	return io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(errors.New("no more comes")))
}

// Given bodies of any length, read in any pieces, whatever was announced of them, then they are read whole.
func TestABodyIsReadWhole(t *testing.T) {
	s := New()
	for _, n := range []int{0, 1, Small - 1, Small, Small + 1, 5*Small + 3, 1 << 20} {
		want := bytes.Repeat([]byte("x"), n)
		for _, announced := range []int64{-1, int64(n)} {
			ctx, release := s.With(context.Background(), "a", may)
			got, err := Read(ctx, iotest.HalfReader(bytes.NewReader(want)), announced)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("of %d bytes, %d announced, %d were read: %v", n, announced, len(got), err)
			}
			release()
		}
	}
	if s.all != 0 || len(s.of) != 0 {
		t.Errorf("%d bytes are left of bodies that are gone, of %v", s.all, s.of)
	}
}

// Given bodies that end before they are whole, as net/http says it of a connection that broke, then they are not read
// as far as they came.
func TestABodyThatWasCutOffIsNone(t *testing.T) {
	s := New()
	for _, arrived := range []int{0, 1, Small, 3 * Small} {
		for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("connection reset")} {
			ctx, release := s.With(context.Background(), "a", may)
			body := io.MultiReader(bytes.NewReader(make([]byte, arrived)), iotest.ErrReader(broken))
			if got, err := Read(ctx, body, 8<<20); !errors.Is(err, broken) || len(got) > 0 {
				t.Errorf("after %d bytes: %d are read, %v", arrived, len(got), err)
			}
			release()
		}
	}
}

// Given bodies that were announced, then what counts of them is at most twice what has arrived.
func TestWhatWasOnlyAnnouncedTakesNothing(t *testing.T) {
	s := New()
	for _, arrived := range []int{0, 10, Small - 1, Small + 1, 3 * Small} {
		ctx, release := s.With(context.Background(), "a", may)
		if _, err := Read(ctx, slow(arrived), 8<<20); err == nil {
			t.Error("a body that did not come was read")
		}
		if s.all > 2*int64(arrived) || arrived > Small && s.all < int64(arrived) {
			t.Errorf("of %d bytes %d are counted", arrived, s.all)
		}
		release()
	}
}

// Given clients that have as much as they may, then small bodies still pass, their further ones are refused, by what is
// in the way, and another client's pass; when they are answered, so do theirs.
func TestBodiesTogetherAreBounded(t *testing.T) {
	s := within(8<<20, 4<<20)
	hold := func(client string) (release func(), err error) {
		ctx, release := s.With(context.Background(), client, may)
		_, err = Read(ctx, bytes.NewReader(make([]byte, 2<<20-1)), 2<<20-1)
		return release, err
	}
	var held []func()
	for _, client := range []string{"a", "a", "b", "b"} {
		release, err := hold(client)
		if err != nil {
			t.Fatalf("%s is refused: %v", client, err)
		}
		held = append(held, release)
	}
	var tooMany *TooMany
	release, err := hold("a")
	if !errors.As(err, &tooMany) || !tooMany.OfAClient || !strings.Contains(err.Error(), "this client may have 4 MiB") {
		t.Errorf("too much of a client: %v", err)
	}
	release()
	release, err = hold("c")
	if !errors.As(err, &tooMany) || tooMany.OfAClient || !strings.Contains(err.Error(), "may have 8 MiB together") {
		t.Errorf("too much in all: %v", err)
	}
	release()
	ctx, release := s.With(context.Background(), "a", may)
	if _, err := Read(ctx, strings.NewReader("small"), 5); err != nil {
		t.Errorf("a small body is refused: %v", err)
	}
	release()
	held[2]()
	release, err = hold("c")
	if err != nil {
		t.Errorf("after another was answered: %v", err)
	}
	release()
}

// Given who may send no more than what is small, then more is not read.
func TestWhoMayNotIsNotRead(t *testing.T) {
	s := New()
	denied := errors.New("denied")
	asked := 0
	ctx, release := s.With(context.Background(), "a", func() error { asked++; return denied })
	defer release()
	if _, err := Read(ctx, strings.NewReader("small"), -1); err != nil || asked != 0 {
		t.Errorf("a small body: %v, asked %d times", err, asked)
	}
	body := bytes.NewReader(make([]byte, 4*Small))
	if _, err := Read(ctx, body, -1); !errors.Is(err, denied) || body.Len() != 3*Small || s.all != 0 {
		t.Errorf("%v; %d bytes are not read, %d are counted", err, body.Len(), s.all)
	}
}
