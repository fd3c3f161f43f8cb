package containerlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// frame is one of the daemon's.
func frame(stream byte, at time.Time, text string) []byte {
	body := at.UTC().Format("2006-01-02T15:04:05.000000000Z") + " " + text
	head := make([]byte, 8)
	head[0] = stream
	binary.BigEndian.PutUint32(head[4:], uint32(len(body)))
	return append(head, body...)
}

// Given a daemon that goes away in the middle of what it gives, when it is there again and gives what it has from the
// time that it is asked for, then each piece is passed on once, to its stream, also pieces of the same moment; and the
// end of the container is the end.
func TestWhatWasReadIsNotReadAgain(t *testing.T) {
	base := time.Unix(1_700_000_000, 5)
	all := []struct {
		stream byte
		at     time.Time
		text   string
	}{
		{1, base, "one\n"},
		{2, base.Add(time.Second), "two\n"},
		{1, base.Add(2 * time.Second), "three, "},
		{1, base.Add(2 * time.Second), "of the same moment\n"},
		{1, base.Add(3 * time.Second), "four\n"},
	}
	var mu sync.Mutex
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/v1.41/containers/c/logs", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		breaks := []int{1, 3, 4, len(all)}[min(asked-1, 3)]
		mu.Unlock()
		var sec, nano int64
		if since := r.URL.Query().Get("since"); since != "" {
			if _, err := fmt.Sscanf(since, "%d.%d", &sec, &nano); err != nil {
				t.Error(err)
			}
		}
		for i, e := range all {
			if i == breaks {
				w.(http.Flusher).Flush()
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.Close() // in the middle of a chunk
				return
			}
			if !e.at.Before(time.Unix(sec, nano)) {
				_, _ = w.Write(frame(e.stream, e.at, e.text)) // it may have left
				w.(http.Flusher).Flush()
			}
		}
	})
	mux.HandleFunc("/v1.41/containers/c/json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"State":{"Status":"exited","Running":false}}`)) // as above
	})
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }() // it ends with the test
	t.Cleanup(func() { _ = s.Close() })
	var out, errs bytes.Buffer
	f := &follower{socket: socket, version: "1.41", id: "c"}
	f.out, f.err = &out, &errs
	over := false
	for range 10 {
		if over, err = f.follow(); over {
			break
		}
	}
	if !over || err != nil || out.String() != "one\nthree, of the same moment\nfour\n" || errs.String() != "two\n" {
		t.Errorf("over %v, %v, it passed on %q and %q", over, err, out.String(), errs.String())
	}
}

// Given a container that is gone, then that is the end; and what is no answer is none.
func TestAContainerThatIsGoneHasNoMoreOutput(t *testing.T) {
	for answer, over := range map[string]bool{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}": true,
		"HTTP/1.1 500 Internal\r\nContent-Length: 2\r\n\r\n{}":  false,
		"nonsense\r\n\r\n": false,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n": false,
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			buf := make([]byte, 4096)
			_, _ = c.Read(buf)             // what is asked
			_, _ = c.Write([]byte(answer)) // it may have left
			_ = c.Close()                  // it was answered
		}()
		f := &follower{socket: socket, version: "1.41", id: "c"}
		f.out, f.err = &bytes.Buffer{}, &bytes.Buffer{}
		got, err := f.follow()
		if got != over || !over && err == nil {
			t.Errorf("%q: over %v, %v", strings.TrimSpace(answer), got, err)
		}
		_ = l.Close() // it may be closed
	}
}
