// Package kit owns what all commands share: the streams and general flags, the client made of them, tables and
// key-value lists, times and sizes as people read them, how arguments name objects, and how errors become exit codes.
// Only the packages of the command line import it.
package kit

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"berth/api"
	"berth/internal/base/redact"

	"golang.org/x/term"
)

// Env is what a command has of the world: streams, environment and general flags.
type Env struct {
	In      io.Reader
	Out     *Printer
	Err     *Printer
	Getenv  func(string) string
	Environ []string
	Version string
	Dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil: over the network

	general    general
	client     *api.Client
	showsToken bool
}

// general are the flags that every command has.
type general struct {
	address, region, namespace string
	token                      secretFlag
	tls                        api.TLSConfig
	noColor, forceColor        bool
}

// secretFlag is a flag that no help shows.
type secretFlag struct{ value redact.Secret }

func (f *secretFlag) Set(v string) error {
	f.value = redact.New(v)
	return nil
}

func (f *secretFlag) String() string { return f.value.String() }

// New makes an environment of plain streams.
func New(in io.Reader, out, errs io.Writer, getenv func(string) string, environ []string, version string) *Env {
	e := &Env{In: in, Getenv: getenv, Environ: environ, Version: version}
	e.Out, e.Err = &Printer{w: out, env: e}, &Printer{w: errs, env: e}
	return e
}

// AddGeneralFlags gives the root command the general flags.
func (e *Env) AddGeneralFlags(root *Command) {
	fs, g := root.Flags(), &e.general
	fs.StringVar(&g.address, "address", "", "`url` of the agent: http://…, https://… or unix:///… (BERTH_ADDR; "+
		"default unix://"+api.DefaultSocket+" if it answers, else "+api.DefaultAddress+")")
	fs.StringVar(&g.region, "region", "", "`name` of the region (BERTH_REGION)")
	fs.StringVar(&g.namespace, "namespace", "", "`name` of the namespace; * in lists means all (BERTH_NAMESPACE)")
	fs.Var(&g.token, "token", "`secret` that proves who you are (BERTH_TOKEN)")
	fs.StringVar(&g.tls.CACert, "ca-cert", "", "`file` of certificate authorities (BERTH_CACERT)")
	fs.StringVar(&g.tls.CAPath, "ca-path", "", "`directory` of such files (BERTH_CAPATH)")
	fs.StringVar(&g.tls.ClientCert, "client-cert", "", "`file` of the client's certificate (BERTH_CLIENT_CERT)")
	fs.StringVar(&g.tls.ClientKey, "client-key", "", "`file` of its key (BERTH_CLIENT_KEY)")
	fs.StringVar(&g.tls.ServerName, "tls-server-name", "",
		"`name` to expect in the server's certificate (BERTH_TLS_SERVER_NAME)")
	fs.BoolVar(&g.tls.SkipVerify, "tls-skip-verify", false, "accept any certificate (BERTH_SKIP_VERIFY)")
	fs.BoolVar(&g.tls.SkipVerify, "insecure", false, "the same as -tls-skip-verify")
	fs.BoolVar(&g.noColor, "no-color", false, "no colours (BERTH_CLI_NO_COLOR)")
	fs.BoolVar(&g.forceColor, "force-color", false,
		"colours even when the output is not a terminal (BERTH_CLI_FORCE_COLOR)")
}

// Client is the client of the agent that flags and environment name.
func (e *Env) Client() *api.Client { return e.client }

// ShowsToken reports whether requests show a token.
func (e *Env) ShowsToken() bool { return e.showsToken }

// Connect makes the client, before the first command that needs it; flags win over the environment.
func (e *Env) Connect() error {
	config, err := api.ConfigFromEnv(e.Getenv)
	if err != nil {
		return err
	}
	g := &e.general
	override(&config.Address, g.address)
	override(&config.Region, g.region)
	override(&config.Namespace, g.namespace)
	override(&config.TLS.CACert, g.tls.CACert)
	override(&config.TLS.CAPath, g.tls.CAPath)
	override(&config.TLS.ClientCert, g.tls.ClientCert)
	override(&config.TLS.ClientKey, g.tls.ClientKey)
	override(&config.TLS.ServerName, g.tls.ServerName)
	config.TLS.SkipVerify = config.TLS.SkipVerify || g.tls.SkipVerify
	if !g.token.value.Empty() {
		config.Token = api.Credential(g.token.value.Reveal())
	}
	e.showsToken = config.Token != ""
	config.Dial = e.Dial
	e.findAgent(&config)
	e.client, err = api.NewClient(config)
	return err
}

// Close closes the connections.
func (e *Env) Close() {
	if e.client != nil {
		e.client.CloseIdle()
	}
}

func override(into *string, value string) {
	if value != "" {
		*into = value
	}
}

// AllNamespaces reports whether lists span namespaces.
func (e *Env) AllNamespaces() bool { return e.client.Config().Namespace == "*" }

// Setting is a boolean of the environment: BERTH_x, or else NOMAD_x.
func (e *Env) setting(name string) bool {
	for _, n := range api.EnvNames(name) {
		if v, err := strconv.ParseBool(e.Getenv(n)); err == nil {
			return v
		}
	}
	return false
}

// ReadFile reads a file of the user, or the standard input up to most bytes when the name is -. shown is the name for
// messages; what says what the file is.
func (e *Env) ReadFile(name, what string, most int64) (text []byte, shown string, err error) {
	if name == "-" {
		shown = "<stdin>"
		text, err = io.ReadAll(io.LimitReader(e.In, most))
	} else {
		shown = filepath.Clean(name)
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the %s cannot be read: %w", what, err)
	}
	return text, shown, nil
}

// InTerminal returns the input when it is a terminal.
func (e *Env) InTerminal() (*os.File, bool) { return terminal(e.In) }

func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// Printer writes for people and remembers the first failure, so that commands need not look at every line.
type Printer struct {
	w   io.Writer
	env *Env
	err error
}

// Write writes bytes as they are.
func (p *Printer) Write(data []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(data)
	p.err = err
	return n, err
}

// Printf writes a line or more for people: on a terminal, lines that are longer are folded at words. What programs
// read, or people copy as a whole, is written by Text.
func (p *Printer) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w := p.width(); w > 0 {
		text = fold(text, w)
	}
	p.Text(text)
}

// Text writes a text as it is, however long its lines are.
func (p *Printer) Text(text string) {
	_, _ = io.WriteString(p, text) // kept in p.err
}

// Failed returns the first failure to write.
func (p *Printer) Failed() error { return p.err }

// Terminal reports whether somebody looks on.
func (p *Printer) Terminal() bool {
	_, ok := terminal(p.w)
	return ok
}

// colored reports whether escape sequences may be written.
func (p *Printer) colored() bool {
	g := &p.env.general
	switch {
	case g.noColor || p.env.Getenv("NO_COLOR") != "" || p.env.setting("CLI_NO_COLOR"):
		return false
	case g.forceColor || p.env.setting("CLI_FORCE_COLOR"):
		return true
	}
	return p.Terminal() && p.env.Getenv("TERM") != "dumb"
}

// The styles of a terminal.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *Printer) style(code, text string) string {
	if text == "" || !p.colored() {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold, Red, Green and Yellow style a text where colours are allowed.
func (p *Printer) Bold(text string) string { return p.style(bold, text) }

// Red is for what failed.
func (p *Printer) Red(text string) string { return p.style(red, text) }

// Green is for what is new or well.
func (p *Printer) Green(text string) string { return p.style(green, text) }

// Yellow is for what changes or needs a look.
func (p *Printer) Yellow(text string) string { return p.style(yellow, text) }
