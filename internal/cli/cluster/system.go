package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

func newGC(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "gc",
		Short:   "Forget what has ended",
		Example: "  berth system gc",
		Run: func(ctx context.Context, _ []string) error {
			return kit.Doing(e.Client().Cluster().CollectGarbage(ctx), "collect", "garbage", "")
		},
	}
}

// apiCall is "operator api".
type apiCall struct {
	env     *kit.Env
	method  string
	headers []string
	filter  string
	dryRun  bool
}

func newAPI(e *kit.Env) *kit.Command {
	a := &apiCall{env: e}
	cmd := &kit.Command{
		Use:   "api [flags] <path> [body]",
		Short: "Send any request to the HTTP API",
		Long: `Sends a request with the address, token, region and namespace of the other commands and prints the reply.
The body is the second argument, or with - the standard input; with one, the method is PUT unless -X says otherwise.`,
		Example: "  berth operator api /v1/jobs\n  berth operator api -X PUT /v1/system/gc",
		Run:     func(ctx context.Context, args []string) error { return a.do(ctx, args) },
	}
	cmd.Flags().StringVar(&a.method, "method", "", "`verb` of the request")
	cmd.Flags().Var((*kit.Strings)(&a.headers), "header", "`name: value` of a header; may come again")
	cmd.Flags().StringVar(&a.filter, "filter", "", "`expression` that objects must meet")
	cmd.Flags().BoolVar(&a.dryRun, "dryrun", false, "print the request instead of sending it")
	cmd.Flags().Letters("X=method", "H=header")
	return cmd
}

func (a *apiCall) do(ctx context.Context, args []string) error {
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
			return kit.Usage("-H takes name: value")
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
	c := a.env.Client()
	if a.dryRun {
		a.env.Out.Text(method + " " + strings.TrimSuffix(c.Config().Address, "/") + path + "\n")
		return nil
	}
	reply, err := c.Raw(ctx, method, path, header, body)
	if err != nil {
		var status *api.StatusError
		if errors.As(err, &status) {
			return kit.Fail(fault.Internal, "", "the agent answered %d: %s", status.Code,
				kit.OneSentence(status.Error()))
		}
		return err
	}
	defer reply.Close()
	_, err = io.Copy(a.env.Out, reply)
	return err
}

// body is what is sent along: the second argument, or with - the standard input. A pipe is not read unasked: scripts
// have one often without meaning it.
func (a *apiCall) body(args []string) io.Reader {
	switch {
	case len(args) < 2:
		return nil
	case args[1] == "-":
		return a.env.In
	}
	return strings.NewReader(args[1])
}
