// Package setup owns the commands that prepare other programs for Berth. The command line imports it.
package setup

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"berth/internal/base/consulsetup"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/cli/kit"
)

// Consul sets up the access lists of Consul.
type Consul func(ctx context.Context, asked consulsetup.Asked) (*consulsetup.Report, error)

// Noun returns "setup" with its verbs.
func Noun(e *kit.Env, c Consul) *kit.Command {
	return kit.Noun("setup", "Prepare other programs for Berth", newConsul(e, c))
}

// Bounds of files that are read whole, in bytes: rules of Consul, and certificates.
const maxFile = 256 << 10

// options are what the command is given.
type options struct {
	asked     consulsetup.Asked
	rules, ca string // names of files
	gateway   string // as NAME=SERVICE,SERVICE
}

func newConsul(e *kit.Env, c Consul) *kit.Command {
	var o options
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "consul [flags]",
		Short: "Write what Consul's access lists need for Berth, or show it first",
		Long: `Says what Consul's access lists have to have: policies for the tokens of servers and nodes, and the auth
method, its binding rules, the role and the policy by which services and tasks get tokens of their own for their
identities. With -apply what is missing is written; without, nothing is. It may be repeated: what is there as it has to
be stays, and so do policies and roles that somebody has changed.

The role is that of the tasks of one namespace, "default" or that of -namespace: repeat the command for others, and for
each terminating gateway, whose identity is given the right to the services behind it by -terminating-gateway.

Where Consul is and which token it is asked by is said by the variables of Consul's own program: CONSUL_HTTP_ADDR,
CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_TOKEN, CONSUL_HTTP_SSL, CONSUL_HTTP_SSL_VERIFY, CONSUL_CACERT, CONSUL_CLIENT_CERT
and CONSUL_CLIENT_KEY. The token needs acl = "write". No token is made, and none is shown.`,
		Example: `  berth setup consul -jwks-url https://berth.example:4646/.well-known/jwks.json
  berth setup consul -jwks-url https://berth.example:4646/.well-known/jwks.json -jwks-ca-file ca.pem -apply
  berth setup consul -namespace shop -task-rules shop.hcl -apply
  berth setup consul -terminating-gateway exit=ext,legacy -apply
  berth setup consul -json`,
		Run: func(ctx context.Context, _ []string) error {
			if err := o.read(e); err != nil {
				return err
			}
			report, err := c(ctx, o.asked)
			return formats.Show(e.Out, report, err, func() { show(e, &o.asked, report) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.asked.Apply, "apply", false, "write what is missing, and do not only show it")
	f.StringVar(&o.asked.Keys, "jwks-url", "", "where Consul reads the public keys of Berth's servers, as a `url` "+
		"(default /.well-known/jwks.json of the agent's address)")
	f.StringVar(&o.ca, "jwks-ca-file", "", "`file` of who has signed the certificate there, PEM (default: an "+
		"authority of Consul's machines)")
	f.StringVar(&o.asked.Method, "auth-method", "nomad-workloads", "the `name` of the auth method")
	f.StringVar(&o.asked.Audience, "audience", "consul.io", "whom identities are meant `for`: aud in service_identity "+
		"and task_identity")
	f.StringVar(&o.rules, "task-rules", "", "`file` with what tasks may do, as rules of Consul (default: find "+
		"services)")
	f.StringVar(&o.gateway, "terminating-gateway", "", "`NAME=SERVICE,…`: a terminating gateway and the services behind "+
		"it, for which its token may speak")
	return formats.AddTo(cmd)
}

// read reads what stands in the environment and in files.
func (o *options) read(e *kit.Env) error {
	if err := where(e.Getenv, &o.asked.Consul); err != nil {
		return err
	}
	o.asked.Namespace = cmp.Or(e.Client().Config().Namespace, "default")
	if o.asked.Namespace == "*" {
		return kit.Usage("a role is that of one namespace; give -namespace its name")
	}
	if err := o.behind(); err != nil {
		return err
	}
	if o.asked.Keys == "" {
		address := e.Client().Config().Address
		if !strings.HasPrefix(address, "http") {
			return kit.Usage("give -jwks-url, where Consul reads the public keys of Berth: the agent is asked at %s, "+
				"which Consul does not reach", address)
		}
		o.asked.Keys = strings.TrimSuffix(address, "/") + "/.well-known/jwks.json"
	}
	for _, file := range []struct {
		name, what string
		into       *string
	}{{o.rules, "file of rules", &o.asked.TaskRules}, {o.ca, "file of authorities", &o.asked.KeysCA}} {
		if file.name == "" {
			continue
		}
		text, shown, err := e.ReadFile(file.name, file.what, maxFile+1)
		if err != nil {
			return err
		}
		if len(text) > maxFile || strings.TrimSpace(string(text)) == "" {
			return kit.Fail(fault.Invalid, "name another one", "the %s %s is empty, or has more than %d bytes",
				file.what, shown, maxFile)
		}
		*file.into = string(text)
	}
	return nil
}

// named is how services of the mesh are called: what is none would be another rule of Consul.
var named = regexp.MustCompile(`^[a-z0-9]([a-z0-9_.-]*[a-z0-9])?$`)

// behind reads which gateway there is, and which services are behind it.
func (o *options) behind() error {
	if o.gateway == "" {
		return nil
	}
	name, list, _ := strings.Cut(o.gateway, "=")
	o.asked.Gateway = consulsetup.Gateway{Name: name, Services: strings.Split(list, ",")}
	for _, s := range append([]string{name}, o.asked.Gateway.Services...) {
		if !named.MatchString(s) {
			return kit.Usage("-terminating-gateway is %q; write the names of the gateway and of the services behind it, as "+
				"in exit=ext,legacy", o.gateway)
		}
	}
	return nil
}

// foreign are variables of Consul's own program that are not taken: who has set one means something by it.
var foreign = []string{"CONSUL_NAMESPACE", "CONSUL_PARTITION", "CONSUL_CAPATH", "CONSUL_TLS_SERVER_NAME",
	"CONSUL_HTTP_AUTH"}

// where reads where Consul is, as its own program does.
func where(env func(string) string, at *consulsetup.Consul) error {
	for _, name := range foreign {
		if env(name) != "" {
			return kit.Fail(fault.Unsupported, "unset it, or write the objects of -json by Consul's own program",
				"the variable %s is set, which this command does not take", name)
		}
	}
	at.Address = env("CONSUL_HTTP_ADDR")
	at.CAFile = env("CONSUL_CACERT")
	at.CertFile, at.KeyFile = env("CONSUL_CLIENT_CERT"), env("CONSUL_CLIENT_KEY")
	verify := true
	for _, b := range []struct {
		name string
		into *bool
	}{{"CONSUL_HTTP_SSL", &at.TLS}, {"CONSUL_HTTP_SSL_VERIFY", &verify}} {
		text := env(b.name)
		if text == "" {
			continue
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			return kit.Usage("the variable %s is %q, and neither true nor false", b.name, text)
		}
		*b.into = v
	}
	at.SkipVerify = !verify
	at.Token = redact.New(env("CONSUL_HTTP_TOKEN"))
	if name := env("CONSUL_HTTP_TOKEN_FILE"); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("the file of CONSUL_HTTP_TOKEN_FILE cannot be read: %w", err)
		}
		at.Token = redact.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// done are the words for what was done.
var done = map[string]string{consulsetup.Create: "created", consulsetup.Update: "updated"}

func show(e *kit.Env, asked *consulsetup.Asked, r *consulsetup.Report) {
	rows := make([][]string, 0, len(r.Steps))
	kept := false
	for _, s := range r.Steps {
		action := s.Action
		if r.Applied {
			action = cmp.Or(done[action], action)
		}
		kept = kept || s.Action == consulsetup.Kept
		rows = append(rows, []string{s.Kind, s.Name, action})
	}
	e.Out.Table([]string{"Kind", "Name", "Action"}, rows)
	e.Out.Text("\n")
	if kept {
		e.Out.Printf("What is kept was changed by somebody: -json shows what it would be.\n")
	}
	switch n := r.To(); {
	case n == 0:
		e.Out.Printf("Consul has all that it needs.\n")
	case !r.Applied:
		e.Out.Printf("Nothing was written: -apply writes it, and -json shows the objects.\n")
	default:
		e.Out.Printf("%d of %d written.\n", n, len(r.Steps))
	}
	if u, err := url.Parse(asked.Keys); err == nil && loopback(u.Hostname()) {
		e.Err.Notice("Warning: each server of Consul reads " + asked.Keys + " on its own machine: -jwks-url names " +
			"another address")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
