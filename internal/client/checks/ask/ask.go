// Package ask owns how a service is asked whether it works: over TCP, HTTP or the gRPC health checking protocol, or by
// a command. Only package checks imports it.
package ask

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"berth/internal/derive/service"
	"berth/internal/model/job"
)

// MaxOutput is how much of an answer is shown, in bytes.
const MaxOutput = 3 << 10

// Ask asks a service once, for no longer than the check's timeout. What it answers, or why it does not, is in Output.
func Ask(ctx context.Context, c *service.Check) service.Answer {
	ctx, cancel := context.WithTimeout(ctx, c.Of.Timeout)
	defer cancel()
	var a service.Answer
	switch c.Of.Type {
	case job.CheckHTTP:
		a = askHTTP(ctx, c)
	case job.CheckGRPC:
		a = askGRPC(ctx, c)
	default:
		a = askTCP(ctx, c)
	}
	a.Output = shown(a.Output)
	a.At = time.Now()
	return a
}

func failed(err error) service.Answer {
	if errors.Is(err, context.DeadlineExceeded) {
		return service.Answer{Output: "it did not answer within the timeout: " + err.Error()}
	}
	return service.Answer{Output: err.Error()}
}

func askTCP(ctx context.Context, c *service.Check) service.Answer {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return failed(err)
	}
	_ = conn.Close() // it was asked for its opening alone
	return service.Answer{Passed: true, Output: "tcp ok"}
}

// tlsConfig is how the service shows who it is.
func tlsConfig(c *service.Check) *tls.Config {
	return &tls.Config{
		ServerName:         c.Of.TLSServerName,
		InsecureSkipVerify: c.Of.TLSSkipVerify, //nolint:gosec // the job asks for it: tls_skip_verify
		MinVersion:         tls.VersionTLS12,
	}
}

// askHTTP passes for status codes from 200 to 399. A redirection is an answer, and is not followed: it could lead to
// what only this node can reach.
func askHTTP(ctx context.Context, c *service.Check) service.Answer {
	u, err := url.Parse(c.Path)
	if err != nil {
		return failed(err)
	}
	u.Scheme, u.Host = "http", c.Address
	if c.Of.Protocol == "https" {
		u.Scheme = "https"
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	method := c.Of.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(c.Body))
	if err != nil {
		return failed(err)
	}
	for k, values := range c.Header {
		for _, v := range values {
			req.Header.Add(k, v)
		}
		if http.CanonicalHeaderKey(k) == "Host" {
			req.Host = values[0]
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "berth health check")
	}
	t := &http.Transport{TLSClientConfig: tlsConfig(c), DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	defer t.CloseIdleConnections()
	res, err := t.RoundTrip(req)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = res.Body.Close() }() // what was read is shown
	var body bytes.Buffer
	_, err = io.Copy(&body, io.LimitReader(res.Body, MaxOutput+1))
	a := service.Answer{StatusCode: res.StatusCode, Passed: res.StatusCode >= 200 && res.StatusCode < 400}
	switch {
	case a.Passed:
		a.Output = "http ok: " + res.Status
	case err != nil:
		a.Output = fmt.Sprintf("%s; its body: %v", res.Status, err)
	default:
		a.Output = strings.TrimSpace(res.Status + "\n" + body.String())
	}
	return a
}

// askGRPC follows the gRPC health checking protocol, version 1.
func askGRPC(ctx context.Context, c *service.Check) service.Answer {
	creds := insecure.NewCredentials()
	if c.Of.GRPCUseTLS {
		creds = credentials.NewTLS(tlsConfig(c))
	}
	conn, err := grpc.NewClient("passthrough:///"+c.Address, grpc.WithTransportCredentials(creds),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy())
	if err != nil {
		return failed(err)
	}
	defer func() { _ = conn.Close() }() // the answer is there
	res, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: c.Of.GRPCService})
	if err != nil {
		return failed(err)
	}
	if s := res.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return service.Answer{Output: "it says " + s.String()}
	}
	return service.Answer{Passed: true, Output: "grpc ok"}
}

// shown cuts an answer and leaves out what no terminal should be sent.
func shown(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r == 0x7f || r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
	if len(s) <= MaxOutput {
		return s
	}
	cut := MaxOutput
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
