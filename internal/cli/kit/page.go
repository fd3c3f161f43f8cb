package kit

import (
	"errors"
	"net/http"

	"berth/api"
	"berth/internal/base/fault"
)

// Page are the flags of lists that may be long.
type Page struct {
	filter, token string
	size          int
}

// AddTo gives a command the flags.
func (p *Page) AddTo(cmd *Command) {
	cmd.Flags().StringVar(&p.filter, "filter", "", "`expression` that objects must meet, such as Status == \"ready\"")
	cmd.Flags().IntVar(&p.size, "per-page", 0, "at most `n` objects")
	cmd.Flags().StringVar(&p.token, "page-token", "", "`token` with which the page before ended")
}

// Query is the read that the flags ask for.
func (p *Page) Query() *api.QueryOptions {
	return &api.QueryOptions{Filter: p.filter, PerPage: p.size, NextToken: p.token}
}

// Doing says what was tried when a list could not be read, with the way out of a filter that is none.
func (p *Page) Doing(err error, objects string) error {
	var status *api.StatusError
	err = Doing(err, "list", objects, "")
	if p.filter != "" && errors.As(err, &status) && status.Code == http.StatusBadRequest {
		return fault.WithHint(err, `write it such as -filter 'Status == "ready"'`)
	}
	return err
}

// More tells how to read on.
func (p *Page) More(e *Env, meta *api.QueryMeta) {
	if meta != nil && meta.NextToken != "" {
		e.Out.Printf("\nThere are more; go on with -page-token %q\n", meta.NextToken)
	}
}
