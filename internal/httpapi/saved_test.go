package httpapi_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"berth/api"
)

// Given a state that was saved, when it is sent, then its digest is of the bytes that come, for clients that accept
// compressed answers, too; and when something else is sent back, then it is refused as a bad request that says what is
// wrong, and the state stays.
func TestASavedStateIsSentAndTakenAsObserved(t *testing.T) {
	r := newRig(t)
	r.submit(webJob("kept"))
	saved := r.must("GET", "/v1/operator/snapshot", nil)
	packed := r.try("GET", "/v1/operator/snapshot", nil, "Accept-Encoding", "gzip")
	for _, a := range []*answer{saved, packed} {
		sum := sha256.Sum256(a.body)
		if got := a.header.Get("Digest"); got != "sha-256="+base64.StdEncoding.EncodeToString(sum[:]) {
			t.Errorf("the digest %s is not that of the body", got)
		}
		if a.header.Get("Content-Encoding") != "" || a.header.Get("Content-Type") != "application/x-gzip" ||
			!bytes.HasPrefix(a.body, []byte("\x1f\x8b")) {
			t.Errorf("it is sent as %v", a.header)
		}
	}
	r.submit(webJob("later"))
	for _, id := range []string{"kept", "later"} {
		until(r, "/v1/job/"+id+"/summary", func(s *api.JobSummary) bool { return s.Summary["g"].Running == 1 })
	}
	var before []*api.JobListStub
	index := r.get("/v1/jobs", &before).index(t)

	recorded := readSample(t, "PUT_operator_snapshot.200").Sent.(string)
	changed := bytes.Clone(saved.body)
	changed[len(changed)/2] ^= 0x40
	for name, c := range map[string]struct {
		file []byte
		text string
	}{
		"nothing":              {nil, "it is no saved state"},
		"a text":               {[]byte("job {}"), "it is no saved state"},
		"the recorded one":     {[]byte(recorded), "it is no saved state"},
		"a half":               {saved.body[:len(saved.body)/2], "it is damaged"},
		"one that was changed": {changed, "it is damaged"},
		"one with more":        {append(bytes.Clone(saved.body), "more"...), "it is damaged"},
	} {
		a := r.try("PUT", "/v1/operator/snapshot", c.file)
		if a.status != http.StatusBadRequest || a.header.Get("Content-Type") != "text/plain; charset=utf-8" ||
			!strings.Contains(string(a.body), c.text) && !strings.Contains(string(a.body), "checksum") {
			t.Errorf("%s is answered with %d %s: %s", name, a.status, a.header.Get("Content-Type"), a.body)
		}
	}
	var after []*api.JobListStub
	if now := r.get("/v1/jobs", &after).index(t); now != index || len(after) != 2 {
		t.Errorf("after refused files there are %d jobs, at %d instead of %d", len(after), now, index)
	}

	a := r.must("PUT", "/v1/operator/snapshot", saved.body)
	if len(a.body) != 0 || a.header.Get("Content-Type") != "" || a.index(t) <= index {
		t.Errorf("a restore is answered with %v %q", a.header, a.body)
	}
	if r.get("/v1/jobs", &after); len(after) != 1 || after[0].ID != "kept" {
		t.Errorf("after the restore there are %d jobs", len(after))
	}
}

// upload sends a file to be restored, in chunks, over a connection of its own; cut: it ends before it says that this
// was all.
func (r *rig) upload(file []byte, cut bool) (a *answer, by string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT /v1/operator/snapshot HTTP/1.1\r\nHost: localhost\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(file), file)
	if err == nil && !cut {
		_, err = io.WriteString(conn, "0\r\n\r\n")
	}
	if err == nil && cut {
		err = conn.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return &answer{resp.StatusCode, resp.Header, body}, conn.LocalAddr().String()
}

// Given a saved state whose upload is cut off, even behind its last byte, then nothing is restored: the person may have
// changed his mind. One that came whole is restored, and the recovery says by whom.
func TestAnUploadThatIsCutOffRestoresNothing(t *testing.T) {
	r := newRig(t)
	saved := r.must("GET", "/v1/operator/snapshot", nil).body
	for _, file := range [][]byte{saved, saved[:len(saved)/2]} {
		if a, _ := r.upload(file, true); a.status != http.StatusBadRequest ||
			!strings.Contains(string(a.body), "body could not be read") {
			t.Errorf("%d bytes of %d are answered with %d: %s", len(file), len(saved), a.status, a.body)
		}
	}
	var now api.RecoveryStatus
	if r.get("/v1/operator/recovery", &now); now.Cause != "" {
		t.Errorf("a recovery has begun: %+v", now)
	}
	a, by := r.upload(saved, false)
	if a.status != http.StatusOK {
		t.Fatalf("one that came whole is answered with %d: %s", a.status, a.body)
	}
	if r.get("/v1/operator/recovery", &now); now.By != by || !strings.HasPrefix(now.Cause, "restored from") {
		t.Errorf("it was restored by %q, and the recovery says %q of %q", by, now.Cause, now.By)
	}
}
