package fetch

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"berth/internal/base/fault"
)

func packed(t *testing.T, form, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	if form == "xz" {
		w, err = xz.NewWriter(&b)
	} else {
		w, err = zstd.NewWriter(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// plainTar is an archive that is not made smaller.
func plainTar(t *testing.T, name, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Given archives and files that xz and zstd made smaller, when they are fetched, then they lie in their place, and what
// they unpack to is bounded as it is of every form.
func TestXzAndZstdAreUnpackedWithinBounds(t *testing.T) {
	zeros := strings.Repeat("\x00", 3<<20)
	for path, form := range map[string]string{
		"/a.tar.xz": "xz", "/a.txz": "xz", "/a.tar.zst": "zst", "/a.tzst": "zst", "/f.xz": "xz", "/f.zst": "zst",
	} {
		body, at := "content", "local/f"
		if strings.HasPrefix(path, "/a") {
			body, at = plainTar(t, "d/x", "content"), "local/d/x"
		}
		f := of(t, serve(t, map[string]http.HandlerFunc{path: text(packed(t, form, body))})+path)
		f.must()
		if got := f.read(at); got != "content" {
			t.Errorf("%s: %s has %q", path, at, got)
		}
		cut := packed(t, form, body)
		of(t, serve(t, map[string]http.HandlerFunc{path: text(cut[:len(cut)/2])})+path).refused(fault.Invalid, "unpack")
		if body = zeros; at == "local/d/x" {
			body = plainTar(t, "d/x", zeros)
		}
		of(t, serve(t, map[string]http.HandlerFunc{path: text(packed(t, form, body))})+path).
			refused(fault.Invalid, "unpacks to more than")
	}
}

// dictionary is a file whose header says that to unpack it takes a dictionary of 1.5 GiB (the xz file format, 5.3.1).
func dictionary(t *testing.T) string {
	t.Helper()
	b := []byte(packed(t, "xz", "x"))
	header := b[12:] // of the first block, behind that of the stream
	size := (int(header[0]) + 1) * 4
	at := bytes.Index(header[:size], []byte{0x21, 0x01}) // LZMA2, and one byte of properties
	if at < 0 {
		t.Fatal("the header names no filter")
	}
	header[at+2] = 37 // (2|37&1) << (37/2+11) bytes
	binary.LittleEndian.PutUint32(header[size-4:], crc32.ChecksumIEEE(header[:size-4]))
	return string(b)
}

// Given a small file that takes much memory to unpack, when it is fetched, then that is refused, and permanently:
// the child has so much and no more.
func TestWhatTakesMuchMemoryToUnpackIsRefused(t *testing.T) {
	url := serve(t, map[string]http.HandlerFunc{"/f.xz": text(dictionary(t))})
	of(t, url+"/f.xz").refused(fault.Invalid, "of memory to unpack")
}

// Given a list of checksums, when it names the file, then what comes is held against it; a list of another host's gets
// none of the headers, and one that names the file not, is too long or is not there leaves nothing behind.
func TestAListOfChecksumsIsHeldAgainstWhatComes(t *testing.T) {
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	wrong := strings.Replace(sum, "ba", "ab", 1)
	var key atomic.Value
	other := serve(t, map[string]http.HandlerFunc{"/SUMS": func(w http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("X-Key"))
		_, _ = io.WriteString(w, wrong+"  g\n"+sum+"  f\n")
	}})
	here := serve(t, map[string]http.HandlerFunc{
		"/d/f":     text("abc"),
		"/d/SUMS":  text(sum + " *f\n"),
		"/d/WRONG": text(wrong + "  f\n"),
		"/d/NONE":  text(sum + "  g\n"),
		"/d/LONG":  text(strings.Repeat("#", maxList+1)),
	})
	of(t, here+"/d/f?checksum=file:SUMS").must()
	f := of(t, here+"/d/f?checksum=file:"+url.QueryEscape(other+"/SUMS"))
	f.req.Headers = map[string]string{"X-Key": "k"}
	f.must()
	if key.Load() != "" {
		t.Errorf("another host heard %q", key.Load())
	}
	of(t, here+"/d/f?checksum=file:WRONG").refused(fault.Invalid, "does not match")
	of(t, here+"/d/f?checksum=file:NONE").refused(fault.Invalid, `has none of "f"`)
	of(t, here+"/d/f?checksum=file:LONG").refused(fault.Invalid, "it has more than")
	of(t, here+"/d/f?checksum=file:GONE").refused(fault.Unavailable, "the list of checksums: the server answers 404")
}

// repository is a bare one with a file f, as it lies on a server.
func bare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", `git init -q -b main w; cd w
git config user.email a@b; git config user.name x; echo one > f; git add .; git commit -qm one
git clone -q --bare . ../r.git; cd ../r.git; git update-server-info`)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// authority is a file with a server's certificate, where who fetches sees it.
func authority(t *testing.T, s *httptest.Server) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "berth-authority-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := filepath.Join(dir, "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

// Given an authority of the operator's own, when the agent's configuration shows it to what fetches, then files and
// repositories come over https from who has its certificate, and from nobody whom no authority vouches for. The file
// alone is not enough where it is not among what may be read, unless nothing is kept from reading.
func TestAnAuthorityOfTheOperatorsIsBelieved(t *testing.T) {
	s := httptest.NewTLSServer(http.FileServer(http.Dir(bare(t))))
	t.Cleanup(s.Close)
	ca := authority(t, s)
	for _, source := range []string{s.URL + "/r.git/HEAD", "git::" + s.URL + "/r.git"} {
		known := of(t, source)
		known.child.Environment = []string{"SSL_CERT_FILE=" + ca, "GIT_SSL_CAINFO=" + ca}
		known.child.Readable = []string{ca}
		known.must()
		of(t, source).refused(fault.Unavailable, "certificate")

		hidden := of(t, source)
		hidden.child.Environment = known.child.Environment
		hidden.refused(fault.Unavailable, "cert")
		hidden.child.Unconfined = true
		hidden.must()
	}
}

// Given a proxy of the agent's, when files and repositories are fetched, then it is asked, whatever its own address is,
// and the address that a job names is not asked but by it.
func TestWhatIsFetchedComesByTheProxy(t *testing.T) {
	origin := httptest.NewServer(http.FileServer(http.Dir(bare(t))))
	t.Cleanup(origin.Close)
	to, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.URL.Host == "artifacts.invalid" {
			asked.Add(1)
		}
		r.SetURL(to)
	}})
	t.Cleanup(proxy.Close)
	for _, source := range []string{"http://artifacts.invalid/r.git/HEAD", "git::http://artifacts.invalid/r.git"} {
		f := of(t, source)
		f.req.Guard = Guard{}
		f.child.Environment = []string{"http_proxy=" + proxy.URL}
		before := asked.Load()
		f.must()
		if asked.Load() == before {
			t.Errorf("%s did not come by the proxy", source)
		}
	}
}
