package images

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver/docker/spec"
)

// Docker's own registry, as files of credentials name it.
const ownRegistry = "https://index.docker.io/v1/"

// helperLimit bounds what a program of credentials takes.
const helperLimit = 30 * time.Second

// auth is who one is at an image's registry: as the job says, as a file of the agent's, or a program; nil: nobody.
func (i *Images) auth(ctx context.Context, o spec.Options, ref reference) (*dockerapi.Auth, error) {
	if a := o.One("auth"); a.Text("username") != "" || a.Text("password") != "" {
		return &dockerapi.Auth{
			Username: a.Text("username"),
			Password: redact.New(a.Text("password")),
			Email:    a.Text("email"),
			Server:   cmp.Or(a.Text("server_address"), ref.domain),
		}, nil
	}
	found, err := i.authOfNode(ctx, ref.domain)
	if err != nil && o.Yes("auth_soft_fail") {
		return nil, nil
	}
	return found, err
}

func (i *Images) authOfNode(ctx context.Context, domain string) (*dockerapi.Auth, error) {
	if i.cfg.AuthFile != "" {
		found, err := fromFile(ctx, i.cfg.AuthFile, domain)
		if err != nil || found != nil {
			return found, err
		}
	}
	if i.cfg.AuthHelper != "" {
		return fromHelper(ctx, i.cfg.AuthHelper, domain)
	}
	return nil, nil
}

// fromFile reads a file of the form of Docker's config.json.
func fromFile(ctx context.Context, path, domain string) (*dockerapi.Auth, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.NotReady, "read", "auth config "+path)
	}
	var file struct {
		Auths       map[string]map[string]any `json:"auths"`
		CredHelpers map[string]string         `json:"credHelpers"`
		CredsStore  string                    `json:"credsStore"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fault.New(fault.Invalid, "read", "auth config "+path, "it is no JSON of the form of Docker's "+
			"config.json") // the text of the error could show what it holds
	}
	names := []string{domain, "https://" + domain, "http://" + domain}
	if domain == "" {
		names = []string{ownRegistry, "docker.io", "index.docker.io"}
	}
	for _, name := range names {
		if helper := file.CredHelpers[name]; helper != "" {
			return fromHelper(ctx, helper, domain)
		}
		entry, ok := file.Auths[name]
		if !ok {
			continue
		}
		said := func(name string) string { text, _ := entry[name].(string); return text }
		username, password := said("username"), said("password")
		if plain, err := base64.StdEncoding.DecodeString(said("auth")); err == nil && len(plain) > 0 {
			username, password, _ = strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
		}
		return &dockerapi.Auth{
			Username: username,
			Password: redact.New(password),
			Server:   cmp.Or(domain, ownRegistry),
			Token:    redact.New(said("identitytoken")),
		}, nil
	}
	if file.CredsStore != "" {
		return fromHelper(ctx, file.CredsStore, domain)
	}
	return nil, nil
}

// fromHelper asks a program as Docker does: the registry on its input, an answer of JSON.
func fromHelper(ctx context.Context, name, domain string) (*dockerapi.Auth, error) {
	limited, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	server := cmp.Or(domain, ownRegistry)
	cmd := exec.CommandContext(limited, "docker-credential-"+name, "get")
	cmd.Stdin = strings.NewReader(server)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		if strings.Contains(out.String(), "credentials not found") {
			return nil, nil
		}
		return nil, fault.Wrap(err, fault.NotReady, "ask", "docker-credential-"+name+" for "+strconv.Quote(server))
	}
	var said map[string]string
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		return nil, fault.New(fault.Invalid, "read", "what docker-credential-"+name+" answers", "it is no JSON")
	}
	if said["Username"] == "<token>" {
		return &dockerapi.Auth{Server: server, Token: redact.New(said["Secret"])}, nil
	}
	return &dockerapi.Auth{Username: said["Username"], Password: redact.New(said["Secret"]), Server: server}, nil
}
