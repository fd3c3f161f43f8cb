package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
)

func newGC(e *kit.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "gc",
		Short:   "Forget what has ended",
		Example: "  berth system gc",
		Args:    kit.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.Client()
			if err != nil {
				return err
			}
			return kit.Doing(c.Cluster().CollectGarbage(cmd.Context()), "collect", "garbage", "")
		},
	}
}

func newNamespaceList(e *kit.Env) *cobra.Command {
	var formats kit.Formats
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List the namespaces",
		Example: "  berth namespace list",
		Args:    kit.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.Client()
			if err != nil {
				return err
			}
			list, _, err := c.Cluster().Namespaces(cmd.Context(), nil)
			switch {
			case err != nil:
				return kit.Doing(err, "list", "namespaces", "")
			case formats.Wanted():
				return formats.Print(e.Out, list)
			case len(list) == 0:
				e.Out.Printf("No namespaces\n")
				return nil
			}
			var rows [][]string
			for _, n := range list {
				rows = append(rows, []string{n.Name, n.Description})
			}
			e.Out.Table([]string{"Name", "Description"}, rows)
			return nil
		},
	}
	formats.AddTo(cmd)
	return cmd
}

func newNamespaceStatus(e *kit.Env) *cobra.Command {
	var formats kit.Formats
	cmd := &cobra.Command{
		Use:     "status [flags] <namespace>",
		Short:   "Show a namespace",
		Example: "  berth namespace status default",
		Args:    kit.Args("namespace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := e.Client()
			if err != nil {
				return err
			}
			n, _, err := c.Cluster().Namespace(cmd.Context(), args[0], nil)
			switch {
			case err != nil:
				return kit.Doing(err, "read", "namespace", args[0])
			case formats.Wanted():
				return formats.Print(e.Out, n)
			}
			var l kit.Pairs
			l.Add("Name", n.Name)
			l.Add("Description", n.Description)
			e.Out.Pairs(l)
			return nil
		},
	}
	formats.AddTo(cmd)
	return cmd
}

func newBootstrap(e *kit.Env) *cobra.Command {
	var formats kit.Formats
	cmd := &cobra.Command{
		Use:     "bootstrap [flags] [file]",
		Short:   "Make the first token",
		Long:    "Makes the first token, once. A file, or - for the standard input, may give its secret, a UUID.",
		Example: "  berth acl bootstrap",
		Args:    kit.Args("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := bootstrapSecret(e, args)
			if err != nil {
				return err
			}
			c, err := e.Client()
			if err != nil {
				return err
			}
			t, err := c.Cluster().BootstrapACL(cmd.Context(), secret)
			switch {
			case err != nil:
				return kit.Doing(err, "bootstrap", "access control", "")
			case formats.Wanted():
				return formats.Print(e.Out, t)
			}
			var l kit.Pairs
			l.Add("Accessor ID", t.AccessorID)
			l.Add("Secret ID", t.SecretID)
			l.Add("Name", t.Name)
			l.Add("Type", t.Type)
			l.Add("Create Time", kit.At(t.CreateTime))
			e.Out.Pairs(l)
			return nil
		},
	}
	formats.AddTo(cmd)
	return cmd
}

func bootstrapSecret(e *kit.Env, args []string) (api.Credential, error) {
	if len(args) == 0 {
		return "", nil
	}
	var text []byte
	var err error
	if args[0] == "-" {
		text, err = io.ReadAll(io.LimitReader(e.In, 4096))
	} else {
		text, err = os.ReadFile(args[0])
	}
	if err != nil {
		return "", fmt.Errorf("the secret cannot be read: %w", err)
	}
	return api.Credential(strings.TrimSpace(string(text))), nil
}

// apiCall is "operator api".
type apiCall struct {
	env     *kit.Env
	method  string
	headers []string
	filter  string
	dryRun  bool
}

func newAPI(e *kit.Env) *cobra.Command {
	a := &apiCall{env: e}
	cmd := &cobra.Command{
		Use:   "api [flags] <path> [body]",
		Short: "Send any request to the HTTP API",
		Long: `Sends a request with the address, token, region and namespace of the other commands and prints the reply. The body is
the second argument, or with - the standard input; with one, the method is PUT unless -X says otherwise.`,
		Example: "  berth operator api /v1/jobs\n  berth operator api -X PUT /v1/system/gc",
		Args:    kit.Args("path", "[body]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.do(cmd, args) },
	}
	cmd.Flags().StringVarP(&a.method, "method", "X", "", "`verb` of the request")
	cmd.Flags().StringArrayVarP(&a.headers, "header", "H", nil, "`name: value` of a header; may come again")
	cmd.Flags().StringVar(&a.filter, "filter", "", "`expression` that objects must meet")
	cmd.Flags().BoolVar(&a.dryRun, "dryrun", false, "print the request instead of sending it")
	return cmd
}

func (a *apiCall) do(cmd *cobra.Command, args []string) error {
	path := "/" + strings.TrimPrefix(args[0], "/")
	if !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/.well-known/") {
		path = "/v1" + path
	}
	if a.filter != "" {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		path += sep + "filter=" + url.QueryEscape(a.filter)
	}
	header := http.Header{}
	for _, h := range a.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return kit.Usage(cmd, "-H takes name: value")
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	body := a.body(args)
	method := strings.ToUpper(a.method)
	if method == "" {
		method = http.MethodGet
		if body != nil {
			method = http.MethodPut
		}
	}
	c, err := a.env.Client()
	if err != nil {
		return err
	}
	if a.dryRun {
		a.env.Out.Printf("%s %s%s\n", method, strings.TrimSuffix(c.Config().Address, "/"), path)
		return nil
	}
	reply, err := c.Raw(cmd.Context(), method, path, header, body)
	if err != nil {
		var status *api.StatusError
		if errors.As(err, &status) {
			return fault.New(fault.Internal, "", "", fmt.Sprintf("the agent answered %d: %s", status.Code, kit.OneSentence(status.Error())))
		}
		return err
	}
	defer reply.Close()
	_, err = io.Copy(a.env.Out, reply)
	return err
}

// body is what is sent along: the second argument, or with - the standard input. A pipe is not read unasked: scripts have
// one often without meaning it.
func (a *apiCall) body(args []string) io.Reader {
	switch {
	case len(args) < 2:
		return nil
	case args[1] == "-":
		return a.env.In
	}
	return strings.NewReader(args[1])
}
