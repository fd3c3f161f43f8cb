package httpapi_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
)

// Whoever shows no token is refused at once, also when the body that the request announces never comes: the connection
// would be held for nobody.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	h := httpapi.New(httpapi.Config{Region: "global", Log: slog.New(slog.DiscardHandler)})
	web := httptest.NewServer(h.Handler(access.Network{Token: redact.New("secret")}))
	defer web.Close()
	c, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server has closed it
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	request := "PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusForbidden {
		t.Fatalf("%+v, %v", answer, err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("the connection stays open: %v", err)
	}
	// Only with this word the answer is written without a look at the body.
	rec := httptest.NewRecorder()
	h.Handler(access.Network{Token: redact.New("secret")}).ServeHTTP(rec,
		httptest.NewRequest(http.MethodPut, "/v1/jobs", strings.NewReader("{}")))
	if rec.Code != http.StatusForbidden || rec.Header().Get("Connection") != "close" {
		t.Errorf("the answer is %d, with %v", rec.Code, rec.Header())
	}
}
