package view

// Switch is the state of a switch at a time, as the web page shows it.
type Switch struct {
	Facts  [][2]string `json:"facts"`
	Ports  []Port      `json:"ports"`
	Tables []Table     `json:"tables"`
}

// Port is a port of a switch.
type Port struct {
	Name  string `json:"name"` // its name on the switch
	To    string `json:"to"`   // name of the node at its other end
	State string `json:"state"`
	Sends string `json:"sends"` // its present sending rate, as text; empty: unknown
}

// Table is a table of a switch: each entry's match and action, by names.
type Table struct {
	Name string      `json:"name"`
	Rows [][2]string `json:"rows"`
	Left int         `json:"left,omitempty"` // rows left out for lack of room
}

// TableRows is the largest number of a table's rows on the web page.
const TableRows = 500

// TablesOf groups entries, which are in the order of their tables, into tables.
func TablesOf[E any](entries []E, named func(E) (table, key, does string)) []Table {
	var out []Table
	for _, e := range entries {
		name, key, does := named(e)
		if len(out) == 0 || out[len(out)-1].Name != name {
			out = append(out, Table{Name: name})
		}
		t := &out[len(out)-1]
		if len(t.Rows) == TableRows {
			t.Left++
			continue
		}
		t.Rows = append(t.Rows, [2]string{key, does})
	}
	return out
}
