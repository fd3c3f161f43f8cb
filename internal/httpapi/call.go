package httpapi

import (
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/filter"
	"berth/internal/wire"
)

// handler answers a request with a value that becomes JSON.
type handler = func(*Server, *request) (any, error)

// call makes one call for a request: ask reads what it asks for, show makes the answer.
func call[Req, Rep any](
	method wire.Method[Req, Rep], ask func(*request) (*Req, error), show func(*request, *Rep) (any, error),
) handler {
	return func(s *Server, r *request) (any, error) {
		req, err := ask(r)
		if err != nil {
			return nil, err
		}
		out, err := method.Call(r.Context(), s.cfg.Servers, req)
		if err != nil {
			return nil, err
		}
		return show(r, out)
	}
}

// reply is what reads get: it names the index of what was read.
type reply[Rep any] interface {
	*Rep
	Read() wire.Meta
}

// read is a call that reads the servers' state.
func read[Req, Rep any, P reply[Rep]](
	method wire.Method[Req, Rep], ask func(*request) (*Req, error), show func(*request, *Rep) (any, error),
) handler {
	return call(method, ask, func(r *request, out *Rep) (any, error) {
		r.observed(P(out).Read())
		return show(r, out)
	})
}

// as shows a reply in its public form.
func as[Rep, Public any](convert func(*Rep) Public) func(*request, *Rep) (any, error) {
	return func(_ *request, out *Rep) (any, error) { return convert(out), nil }
}

// write is a call that changes the servers' state.
func write[Req, Rep any](
	method wire.Method[Req, Rep], ask func(*request) (*Req, error), show func(*Rep) (index uint64, answer any),
) handler {
	return call(method, ask, func(r *request, out *Rep) (any, error) {
		index, answer := show(out)
		r.written(index)
		audit.Of(r.Context()).Made(answer)
		return answer, nil
	})
}

// empty answers a write with nothing but its index.
func empty(out *wire.Written) (uint64, any) { return out.Index, noReply{} }

// done answers an order to a node with nothing.
func done(*request, *wire.Empty) (any, error) { return noReply{}, nil }

// shown makes the answer of one item.
func shown[T any](item *T, what string, form func(*T) any) (any, error) {
	if item == nil {
		return nil, missing(what + " not found")
	}
	return form(item), nil
}

// one shows the object that was read.
func one[T any](what string, form func(*T) any) func(*request, *wire.One[T]) (any, error) {
	return func(_ *request, out *wire.One[T]) (any, error) { return shown(out.Item, what, form) }
}

// public gives a form of its own type the one that answers have.
func public[T, Public any](form func(T) Public) func(T) any { return func(v T) any { return form(v) } }

// listed shows a list whose pages servers cut.
func listed[T, Public any](key func(T) string, form func(T) Public) func(*request, *wire.List[T]) (any, error) {
	t := table[T]{key: key, row: public(form)}
	return func(r *request, out *wire.List[T]) (any, error) { return t.show(r, out.Items, out.NextToken) }
}

// body has read read what a request brings; form gets the id in the path, too, and who asks.
func body[Body, Req any](
	read func(*request, any) error, form func(body *Body, id, by string) (*Req, error),
) func(*request) (*Req, error) {
	return func(r *request) (*Req, error) {
		in := new(Body)
		if err := read(r, in); err != nil {
			return nil, err
		}
		return form(in, r.PathValue("id"), access.Peer(r.Request))
	}
}

// byName reads the name in the path with the parameters of a read.
func byName[ID ~string](r *request) (*wire.Ref[ID], error) {
	q, err := r.query()
	return &wire.Ref[ID]{Query: q, ID: ID(r.PathValue("id"))}, err
}

// byID reads the full id in the path with the parameters of a read.
func byID[ID ~string](kind string) func(*request) (*wire.Ref[ID], error) {
	return func(r *request) (*wire.Ref[ID], error) {
		if err := wholeID(kind, r.PathValue("id")); err != nil {
			return nil, err
		}
		return byName[ID](r)
	}
}

// table shows a list: key is an item's place in pages, row its line, full what a filter sees of it. The list comes in
// the order of keys.
type table[T any] struct {
	key  func(T) string
	row  func(T) any
	full func(T) any // nil: the row
}

// show shows a list. Servers have cut the page of it, unless this layer chooses what is shown: then items are all, and
// the page is cut here.
func (t table[T]) show(r *request, items []T, next string) (any, error) {
	if r.chosen != nil {
		full := t.full
		if full == nil {
			full = t.row
		}
		visible, err := filter.Of(r.Context(), r.arg("filter"), items, full)
		if err != nil {
			return nil, badRequest(err.Error())
		}
		items, next = wire.Cut(*r.chosen, visible, t.key)
	}
	r.next = next
	return rows(items, t.row), nil
}

// rows makes a list that is never null.
func rows[T, Row any](items []T, row func(T) Row) []Row {
	out := make([]Row, 0, len(items))
	for _, it := range items {
		out = append(out, row(it))
	}
	return out
}
