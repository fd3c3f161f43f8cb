package sigv4_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/base/sigv4"
)

// TestThePublishedExamples: the requests that the API reference of the store shows have the signatures that it shows.
func TestThePublishedExamples(t *testing.T) {
	keys := sigv4.Keys{ID: "AKIAIOSFODNN7EXAMPLE", Secret: redact.New("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ path, ranges, signature string }{
		{"/test.txt", "bytes=0-9", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"/?lifecycle", "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"/?max-keys=2&prefix=J", "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://examplebucket.s3.amazonaws.com"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.ranges != "" {
			r.Header.Set("Range", c.ranges)
		}
		sigv4.Sign(r, keys, "us-east-1", at)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+c.signature) ||
			!strings.Contains(got, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,") {
			t.Errorf("%s: %s", c.path, got)
		}
	}
}
