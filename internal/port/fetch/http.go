package fetch

import (
	"cmp"
	"context"
	"crypto/md5"  //nolint:gosec // the author's choice; it keeps out accidents, as he knows
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
)

// maxRedirects is how often whoever is asked may name another address.
const maxRedirects = 10

// sums are the kinds of checksums.
var sums = map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// transport connects to what the guard lets be asked, and to the agent's proxies, which judge by themselves.
func (f *fetching) transport() *http.Transport {
	guarded, free := f.Guard.dialer(), &net.Dialer{Timeout: 30 * time.Second}
	proxies := map[string]bool{}
	return &http.Transport{
		Proxy: func(r *http.Request) (to *url.URL, err error) {
			if to, err = http.ProxyFromEnvironment(r); err == nil && to != nil {
				proxies[hostPort(to)] = true
			}
			return to, err
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if proxies[address] {
				return free.DialContext(ctx, network, address)
			}
			return guarded.DialContext(ctx, network, address)
		},
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: f.Insecure}, //nolint:gosec // as the job says
		TLSHandshakeTimeout:    30 * time.Second,
		ResponseHeaderTimeout:  2 * time.Minute,
		MaxResponseHeaderBytes: 1 << 20,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a checksum is of what lies there
	}
}

// hostPort is where a proxy is dialled.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(port, "80"))
}

// client asks; what the job says of headers it tells nobody but the host that the job names.
func (f *fetching) client() *http.Client {
	return &http.Client{
		Transport: f.transport(),
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			first := via[0]
			switch {
			case len(via) > maxRedirects:
				return fault.New(fault.Unavailable, "", "",
					fmt.Sprintf("it redirects more than %d times", maxRedirects))
			case r.URL.Scheme != "https" && (r.URL.Scheme != "http" || first.URL.Scheme == "https"):
				return fault.New(fault.Denied, "", "", fmt.Sprintf("it redirects from %s to %s", first.URL.Scheme,
					r.URL.Scheme))
			}
			if r.URL.Host != first.URL.Host {
				for name := range f.Headers {
					r.Header.Del(name)
				}
			}
			return nil
		},
	}
}

// download receives the file that a source names, and returns where it lies once it adds up.
func (f *fetching) download(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Source.URL, nil)
	if err != nil {
		return "", fault.New(fault.Invalid, "", "", "it is no address")
	}
	req.Header.Set("User-Agent", "berth")
	for name, value := range f.Headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	answer, err := f.client().Do(req)
	if err != nil {
		return "", asked(err)
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or given up
	if answer.StatusCode != http.StatusOK {
		return "", fault.New(fault.Unavailable, "", "", "the server answers "+answer.Status)
	}
	most := f.Bounds.Received
	if most > 0 && answer.ContentLength > most {
		return "", tooLarge(most)
	}
	at := path.Join(work, "file")
	out, err := f.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "write", "what is received")
	}
	sum := sha256.New()
	if kind := sums[f.Source.Sum.Type]; kind != nil {
		sum = kind()
	}
	m := &meter{total: max(answer.ContentLength, 0), most: most, say: f.progress}
	_, err = io.Copy(io.MultiWriter(m, out, sum), answer.Body)
	if err := errors.Join(err, out.Close()); err != nil {
		return "", asked(err)
	}
	if want, got := f.Source.Sum.Hex, hex.EncodeToString(sum.Sum(nil)); want != "" && want != got {
		return "", fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("the checksum does not match: %s is %s, and the job says %s", f.Source.Sum.Type, got, want)),
			"it is another file than was meant, or the job is to say another checksum")
	}
	return at, nil
}

// asked says of an error of a request what trying again can do.
func asked(err error) error {
	var known *fault.Error
	if errors.As(err, &known) { // the guard's and ours lie in what net/http says of the address, query and all
		return known
	}
	var by *url.Error
	if errors.As(err, &by) {
		err = by.Err
	}
	return fault.Wrap(err, full(err, fault.Unavailable), "", "")
}

func tooLarge(most int64) error {
	return fault.WithHint(fault.New(fault.Invalid, "", "",
		fmt.Sprintf("it has more than %s", sizes.Human(most))),
		"the bound is the group's ephemeral_disk size, or http_max_size of the client's artifact block")
}

// meter counts what is received, and says so each second.
type meter struct {
	received, total, most int64
	said                  time.Time
	say                   func(Progress) error
}

func (m *meter) Write(b []byte) (int, error) {
	m.received += int64(len(b))
	if m.most > 0 && m.received > m.most {
		return 0, tooLarge(m.most)
	}
	if time.Since(m.said) < time.Second {
		return len(b), nil
	}
	m.said = time.Now()
	return len(b), m.say(Progress{Received: m.received, Total: m.total})
}
