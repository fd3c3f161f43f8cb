package conns

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// BodyPause is how long a client may send nothing of a body that it announced.
const BodyPause = 30 * time.Second

// refusedPause is the same for one whose request was refused before its body was asked for.
const refusedPause = time.Second

// leastRate is how much of a body has to come in each second that this program waits for it, in bytes, beyond the first
// pause: whoever sends a byte now and then keeps what has arrived in memory otherwise.
const leastRate = 64 << 10

// Body bounds how slowly a request's body may come: a client that sends nothing of it for a pause, or less than the
// least rate, has its connection closed. What comes steadily may take as long as it needs.
func Body(w http.ResponseWriter, r *http.Request, pause time.Duration) {
	if r.Body == nil || r.ContentLength == 0 {
		return
	}
	b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), pause: pause, left: pause}
	b.until(time.Now().Add(pause)) // what is left of it unread is not waited for without end either
	r.Body = b
}

// Refused ends the connection of a request that is not admitted, with the answer: neither waits for a body that nobody
// reads, and nobody keeps a connection by requests that are refused.
func Refused(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	Body(w, r, refusedPause)
}

type body struct {
	io.ReadCloser
	control *http.ResponseController
	pause   time.Duration
	left    time.Duration // that this program still waits for what comes next
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	begun := time.Now()
	b.until(begun.Add(min(b.pause, b.left)))
	n, err := b.ReadCloser.Read(p)
	// What is done between reads is not the client's time.
	b.left += time.Duration(n)*time.Second/leastRate - time.Since(begun)
	if errors.Is(err, io.EOF) {
		b.until(time.Time{}) // the connection may be silent while the answer is made
	}
	return n, err
}

// until sets the deadline. Where a connection has none, as in a test's recorder, nothing waits for a network either.
func (b *body) until(t time.Time) { _ = b.control.SetReadDeadline(t) }
