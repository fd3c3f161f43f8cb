package fetch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// s3 is a store like Amazon's that answers requests which are signed with its key. It judges by itself: the signature
// is put together from what arrived.
func s3(t *testing.T, region, secret string, objects map[string]string) string {
	t.Helper()
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		_, _ = io.WriteString(m, text)
		return m.Sum(nil)
	}
	return serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		day, _, _ := strings.Cut(r.Header.Get("X-Amz-Date"), "T")
		scope := day + "/" + region + "/s3/aws4_request"
		names := []string{"host", "x-amz-content-sha256", "x-amz-date"}
		lines := "host:" + r.Host + "\nx-amz-content-sha256:" + r.Header.Get("X-Amz-Content-Sha256") +
			"\nx-amz-date:" + r.Header.Get("X-Amz-Date") + "\n"
		if token := r.Header.Get("X-Amz-Security-Token"); token != "" {
			names = append(names, "x-amz-security-token")
			lines += "x-amz-security-token:" + token + "\n"
		}
		signed := strings.Join(names, ";")
		sum := sha256.Sum256([]byte(r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n" + lines +
			"\n" + signed + "\n" + r.Header.Get("X-Amz-Content-Sha256")))
		key := []byte("AWS4" + secret)
		for _, part := range strings.Split(scope, "/") {
			key = mac(key, part)
		}
		text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
		want := "AWS4-HMAC-SHA256 Credential=AK/" + scope + ",SignedHeaders=" + signed + ",Signature=" +
			hex.EncodeToString(mac(key, text))
		body, there := objects[r.URL.Path]
		switch {
		case r.Header.Get("Authorization") != want:
			w.WriteHeader(http.StatusForbidden)
		case !there:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, body)
		}
	}})
}

// Given a store like Amazon's, when an object is fetched with the right keys, then it lies in its place, and an archive
// is unpacked; with others, or none, the store's answer is said and nothing lies there.
func TestAnObjectIsAskedForWithASignature(t *testing.T) {
	const keys = "aws_access_key_id=AK&aws_access_key_secret=right%2Fkey&region=eu-x"
	store := s3(t, "eu-x", "right/key", map[string]string{
		"/b/dir/f x.bin": "object",
		"/b/a.zip":       zipped(t, map[string]string{"in": "archived"}),
	})
	f := of(t, "s3::"+store+"/b/dir/f%20x.bin?"+keys)
	f.must()
	if got := f.read("local/f x.bin"); got != "object" {
		t.Errorf("it is %q", got)
	}
	f = of(t, "s3::"+store+"/b/a.zip?aws_access_token=to-ken&"+keys)
	f.must()
	if got := f.read("local/in"); got != "archived" {
		t.Errorf("it is %q", got)
	}
	of(t, "s3::"+store+"/b/a.zip?"+strings.Replace(keys, "right", "wrong", 1)).refused(fault.Unavailable, "403")
	of(t, "s3::"+store+"/b/a.zip?"+strings.Replace(keys, "eu-x", "us-y", 1)).refused(fault.Unavailable, "403")
	of(t, "s3::"+store+"/b/a.zip").refused(fault.Unavailable, "403")
}

// Given a store that sends whoever asks on to another host, then that one hears neither signature nor token.
func TestKeysAreForTheHostThatTheJobNames(t *testing.T) {
	var heard []string
	there := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		for _, name := range ofKeys {
			heard = append(heard, r.Header.Get(name))
		}
		_, _ = io.WriteString(w, "x")
	}})
	first := ""
	store := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		first = r.Header.Get("Authorization")
		http.Redirect(w, r, there+"/f", http.StatusTemporaryRedirect)
	}})
	for source, begins := range map[string]string{
		"s3::" + store + "/b/f?aws_access_key_id=AK&aws_access_key_secret=s&aws_access_token=t": "AWS4-HMAC-SHA256 ",
		"gcs::" + store + "/storage/v1/b/f?access_token=tok":                                    "Bearer tok",
	} {
		heard = nil
		of(t, source).must()
		if !strings.HasPrefix(first, begins) || strings.Join(heard, "") != "" {
			t.Errorf("%s: the first heard %q, the other %q", source, first, heard)
		}
	}
}
