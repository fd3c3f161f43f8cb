package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
)

// DefaultAddress is where an agent has its port unless its configuration says otherwise.
const DefaultAddress = "http://127.0.0.1:4646"

// DefaultSocket is where an agent in service has its unix socket unless its configuration says otherwise. Clients name
// it by the address "unix://" + DefaultSocket.
const DefaultSocket = "/run/berth/api.sock"

// Config says which agent a Client speaks to, and as whom.
type Config struct {
	Address   string // http://host:port, https://host:port or unix:///path; empty: DefaultAddress
	Region    string // of every request that names none
	Namespace string // of every request that names none
	Token     Credential
	HTTPAuth  Credential  // user:password
	Header    http.Header // added to every request
	TLS       TLSConfig
	// Dial connects to agents; nil means over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLSConfig are the files and names of encrypted connections.
type TLSConfig struct {
	CACert     string // file of certificate authorities
	CAPath     string // directory of such files
	ClientCert string // file
	ClientKey  string // file
	ServerName string // expected of the server instead of the address
	SkipVerify bool   // accept any server
}

// Credential is something that opens doors. No formatter or log shows it.
type Credential string

// Reveal returns the credential itself.
func (c Credential) Reveal() string { return string(c) }

// String hides the credential.
func (c Credential) String() string {
	if c == "" {
		return ""
	}
	return "***"
}

// GoString hides the credential.
func (c Credential) GoString() string { return c.String() }

// Format hides the credential from every verb.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue hides the credential from logs.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText hides the credential from encoders.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// EnvNames returns the names under which the environment may give a setting, the first that is set counts.
func EnvNames(setting string) [2]string { return [2]string{"BERTH_" + setting, "NOMAD_" + setting} }

// ConfigFromEnv reads BERTH_ADDR, BERTH_TOKEN, BERTH_NAMESPACE, BERTH_REGION, BERTH_CACERT, BERTH_CAPATH,
// BERTH_CLIENT_CERT, BERTH_CLIENT_KEY, BERTH_TLS_SERVER_NAME, BERTH_SKIP_VERIFY and BERTH_HTTP_AUTH, or else the same
// names with NOMAD_. What is not set stays empty. A nil getenv reads the environment of the process.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	if getenv == nil {
		getenv = os.Getenv
	}
	used := ""
	get := func(setting string) string {
		for _, name := range EnvNames(setting) {
			if v := getenv(name); v != "" {
				used = name
				return v
			}
		}
		return ""
	}
	out := Config{
		Address:   get("ADDR"),
		Region:    get("REGION"),
		Namespace: get("NAMESPACE"),
		Token:     Credential(get("TOKEN")),
		HTTPAuth:  Credential(get("HTTP_AUTH")),
		TLS: TLSConfig{
			CACert:     get("CACERT"),
			CAPath:     get("CAPATH"),
			ClientCert: get("CLIENT_CERT"),
			ClientKey:  get("CLIENT_KEY"),
			ServerName: get("TLS_SERVER_NAME"),
		},
	}
	if v := get("SKIP_VERIFY"); v != "" {
		skip, err := strconv.ParseBool(v)
		if err != nil {
			return out, fmt.Errorf("%s must be true or false, is %q", used, v)
		}
		out.TLS.SkipVerify = skip
	}
	return out, nil
}
