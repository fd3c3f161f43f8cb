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
	"sync"
	"time"

	"berth/internal/base/artifact"
	"berth/internal/base/fault"
	"berth/internal/base/sigv4"
	"berth/internal/base/sizes"
)

// maxRedirects is how often whoever is asked may name another address.
const maxRedirects = 10

// sums are the kinds of checksums.
var sums = map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// transport connects to what the guard lets be asked, and to the agent's proxies, which judge by themselves. An answer
// begins within a time; 0: whenever it does.
func (f *fetching) transport(begins time.Duration) *http.Transport {
	guarded, free := f.Guard.dialer(), &net.Dialer{Timeout: 30 * time.Second}
	var proxies sync.Map
	return &http.Transport{
		Proxy: func(r *http.Request) (to *url.URL, err error) {
			if to, err = http.ProxyFromEnvironment(r); err == nil && to != nil {
				proxies.Store(hostPort(to), true)
			}
			return to, err
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if _, is := proxies.Load(address); is {
				return free.DialContext(ctx, network, address)
			}
			return guarded.DialContext(ctx, network, address)
		},
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: f.Insecure}, //nolint:gosec // as the job says
		TLSHandshakeTimeout:    30 * time.Second,
		ResponseHeaderTimeout:  begins,
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
		Transport: f.transport(2 * time.Minute),
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			first := via[0]
			switch {
			case first.Method != http.MethodGet:
				return http.ErrUseLastResponse
			case len(via) > maxRedirects:
				return fault.New(fault.Unavailable, "", "",
					fmt.Sprintf("it redirects more than %d times", maxRedirects))
			case r.URL.Scheme != "https" && (r.URL.Scheme != "http" || first.URL.Scheme == "https"):
				return fault.New(fault.Denied, "", "", fmt.Sprintf("it redirects from %s to %s", first.URL.Scheme,
					r.URL.Scheme))
			}
			r.Header.Del("Referer") // which would tell what the query holds
			if r.URL.Host != first.URL.Host {
				for name := range f.Headers {
					r.Header.Del(name)
				}
				for _, name := range ofKeys {
					r.Header.Del(name)
				}
			}
			return nil
		},
	}
}

// download receives the file that a source names, and returns where it lies once it adds up.
func (f *fetching) download(ctx context.Context) (string, error) {
	expected, err := f.expected(ctx)
	if err != nil {
		return "", err
	}
	answer, err := f.ask(ctx, f.Source.URL)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or given up
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
	if kind := sums[expected.Type]; kind != nil {
		sum = kind()
	}
	m := &meter{total: max(answer.ContentLength, 0), most: most, say: f.progress}
	_, err = io.Copy(io.MultiWriter(m, out, sum), answer.Body)
	if err := errors.Join(err, out.Close()); err != nil {
		return "", asked(err)
	}
	if want, got := expected.Hex, hex.EncodeToString(sum.Sum(nil)); want != "" && want != got {
		return "", fault.WithHint(fault.New(fault.Invalid, "", "",
			fmt.Sprintf("the checksum does not match: %s is %s, and is to be %s", expected.Type, got, want)),
			"it is another file than was meant, or the job is to say another checksum")
	}
	return at, nil
}

// ask asks for what lies at an address. Headers are for the host that the source names.
func (f *fetching) ask(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	source, perr := url.Parse(f.Source.URL)
	if err != nil || perr != nil {
		return nil, fault.New(fault.Invalid, "", "", "it is no address")
	}
	req.Header.Set("User-Agent", "berth")
	f.tell(req, source)
	answer, err := f.client().Do(req)
	if err != nil {
		return nil, asked(err)
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // nobody reads what else it says
		return nil, fault.New(fault.Unavailable, "", "", "the server answers "+answer.Status)
	}
	return answer, nil
}

// tell gives a request the headers that the job says, if it is one to the host that the source names.
func (f *fetching) tell(req *http.Request, source *url.URL) {
	if req.URL.Scheme != source.Scheme || req.URL.Host != source.Host {
		return
	}
	if !f.Source.Bearer.Empty() {
		req.Header.Set("Authorization", "Bearer "+f.Source.Bearer.Reveal())
	}
	for name, value := range f.Headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	if s := f.Source.Signing; s != nil {
		sigv4.Sign(req, s.Keys, s.Region, time.Now())
	}
}

// ofKeys are the headers by which keys and tokens are shown.
var ofKeys = []string{"Authorization", "X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Security-Token"}

// maxList bounds a list of checksums, in bytes.
const maxList = 1 << 20

// expected is what the file has to add up to, for which a list of checksums is asked where the source names one.
func (f *fetching) expected(ctx context.Context) (artifact.Checksum, error) {
	if f.Source.Sum.File == "" {
		return f.Source.Sum, nil
	}
	sum, err := f.listed(ctx)
	return sum, fault.Note(err, "read", "the list of checksums")
}

func (f *fetching) listed(ctx context.Context) (artifact.Checksum, error) {
	answer, err := f.ask(ctx, f.Source.Sum.File)
	if err != nil {
		return artifact.Checksum{}, err
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or given up
	list, err := io.ReadAll(io.LimitReader(answer.Body, maxList+1))
	if err != nil {
		return artifact.Checksum{}, asked(err)
	}
	if len(list) > maxList {
		return artifact.Checksum{}, fault.WithHint(
			fault.New(fault.Invalid, "", "", "it has more than "+sizes.Human(maxList)), "write the checksum itself")
	}
	source, err := url.Parse(f.Source.URL)
	if err != nil {
		return artifact.Checksum{}, fault.New(fault.Invalid, "", "", "it is no address")
	}
	return artifact.SumIn(list, path.Base(source.Path))
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
