package taskconfig

// Form is a block of a job in the form in which drivers read it, as far as that is known: what does not fit is not in
// it, and what stands for a value that is put in its place later is as it stands.
func (s Schema) Form(driver string, cfg map[string]any) Options {
	r := reading{driver: driver, submitted: true}
	return r.block("config", s, cfg)
}

// Options reads a config block as the Schema left it.
type Options map[string]any

// Text is a text, or empty.
func (o Options) Text(name string) string { s, _ := o[name].(string); return s }

// Yes reports whether something is set to true.
func (o Options) Yes(name string) bool { b, _ := o[name].(bool); return b }

// Number is a whole number, or 0.
func (o Options) Number(name string) int64 {
	n, _ := o[name].(int64)
	return n
}

// Texts is a list of texts.
func (o Options) Texts(name string) (out []string) {
	list, _ := o[name].([]any)
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// Pairs is a map of texts; nil: it is empty.
func (o Options) Pairs(name string) map[string]string {
	m, _ := o[name].(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out := map[string]string{}
	for k, v := range m {
		out[k], _ = v.(string)
	}
	return out
}

// Blocks are the blocks of a name.
func (o Options) Blocks(name string) (out []Options) {
	list, _ := o[name].([]any)
	for _, v := range list {
		m, _ := v.(map[string]any)
		out = append(out, m)
	}
	return out
}

// One is a block that is there once, or empty.
func (o Options) One(name string) Options {
	if all := o.Blocks(name); len(all) > 0 {
		return all[len(all)-1]
	}
	return Options{}
}
