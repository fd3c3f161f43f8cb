package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"berth/internal/base/redact"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/bodies"
)

// Given a body that does not come to its end, then the answer says why, by the status that clients know for it.
func TestABodyThatCannotBeReadIsAnsweredBySaying(t *testing.T) {
	h := newRig(t).handler.Handler(access.Network{})
	for _, c := range []struct {
		ends   error
		status int
		says   string
	}{
		{&bodies.TooMany{MiB: 64, OfAClient: true}, http.StatusTooManyRequests, "this client may have 64 MiB"},
		{&bodies.TooMany{MiB: 128}, http.StatusServiceUnavailable, "all clients of this agent may have 128 MiB"},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), http.StatusRequestTimeout, "too slowly"},
		{errors.New("it broke"), http.StatusBadRequest, "could not be read: it broke"},
	} {
		out := httptest.NewRecorder()
		h.ServeHTTP(out, httptest.NewRequest(http.MethodPut, "http://localhost/v1/jobs", iotest.ErrReader(c.ends)))
		if out.Code != c.status || !strings.Contains(out.Body.String(), c.says) {
			t.Errorf("%v: %d %s", c.ends, out.Code, out.Body)
		}
	}
}

// Given as many long bodies of one client as there may never be at once, when each is answered before the next comes,
// then all of them are read.
func TestABodyThatIsAnsweredTakesNothing(t *testing.T) {
	h := newRig(t).handler.Handler(access.Network{})
	for range 10 {
		out := httptest.NewRecorder()
		body := bytes.NewReader(bytes.Repeat([]byte(" "), 8<<20))
		h.ServeHTTP(out, httptest.NewRequest(http.MethodPut, "http://localhost/v1/jobs", body))
		if out.Code != http.StatusBadRequest {
			t.Fatalf("%d %s", out.Code, out.Body)
		}
	}
}

// Given tokens that give nothing of what a route changes, in any namespace, then no more is read of a body than what is
// small; of others it is read, wherever they may.
func TestALongBodyIsReadOfWhoMayHaveUseForIt(t *testing.T) {
	w := newWorld(t)
	_, secrets := judged(t, w)
	h := w.handler.Handler(access.Network{Lists: true, Agent: "n", Token: redact.New("the agent's own token")})
	for route, may := range map[string][]string{
		"/v1/jobs":                   {"everywhere", "other", "twins", "writer", "management"},
		"/v1/job/x":                  {"everywhere", "other", "twins", "writer", "management"},
		"/v1/job/x/plan":             {"everywhere", "other", "twins", "writer", "management"},
		"/v1/validate/job":           {"everywhere", "other", "twins", "reader", "writer", "management"},
		"/v1/volumes":                {"everywhere", "other", "twins", "writer", "management"},
		"/v1/volume/csi/x/create":    {"everywhere", "other", "twins", "writer", "management"},
		"/v1/acl/policy/x":           {"management"},
		"/v1/acl/token":              {"management"},
		"/v1/operator/snapshot":      {"management"},
		"/v1/volumes/snapshot":       {"everywhere", "other", "twins", "writer", "management"},
		"/v1/volume/csi/x/expand":    {"everywhere", "other", "twins", "writer", "management"},
		"/v1/orphans/adopt":          {"management"},
		"/v1/acl/role/name-of-a-new": {"management"},
	} {
		for _, p := range policies {
			body := bytes.NewReader(bytes.Repeat([]byte("x"), 4*bodies.Small))
			r := httptest.NewRequest(http.MethodPut, "http://localhost"+route, io.NopCloser(body))
			r.Header.Set("X-Nomad-Token", secrets[p.name])
			out := httptest.NewRecorder()
			h.ServeHTTP(out, r)
			read := body.Len() == 0
			want := strings.Contains(" "+strings.Join(may, " ")+" ", " "+p.name+" ")
			if read != want || !read && (out.Code != http.StatusForbidden || body.Len() < 3*bodies.Small) {
				t.Errorf("%s: %s: %d, %d bytes were not read: %s", route, p.name, out.Code, body.Len(), out.Body)
			}
		}
	}
}
