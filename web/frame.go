package web

// Frame is what stands around every page.
type Frame struct {
	Prefix   string // before every path, "" or /like/this
	Path     string // of this page, with its query and without the prefix
	Theme    string // "" (as the system has it), dark or light
	Sections []Section
	Who      string // "" when nobody is signed in
	Access   string // what they may do, in a few words
	Needs    string // the scope that this page's acts need and they have not; "": none
	Version  string
	Notice   *Notice
	Live     string // where updates of this page come from, with the prefix; "": nowhere
	Now      int64  // Unix milliseconds: the clock that ages are told by
}

// Section is one entry of the navigation.
type Section struct {
	Title, Href string
	Key         string // opens it after g
	Current     bool
}

// Notice is the outcome of what was just asked for.
type Notice struct {
	Text  string
	Level Level
}

// SignIn is the Body of the page "login".
type SignIn struct {
	Next  string // where to afterwards
	Fault string
	Needs string // scopes that the page has a use for
}

// Message is the Body of the page "message": an error, or something that cannot be shown.
type Message struct {
	Heading, Text string
	Next          []Choice
	RequestID     string
	Onward        string // where the browser goes by itself at once; "": nowhere
}

// Choice is something that can be done next.
type Choice struct{ Text, Href string }

// Fact is one line of what is known of something.
type Fact struct {
	Title string
	Kind  Kind
	Cell
	Name string // a field of that name is patched; "": it stands still
}

// Facts are lines in order.
type Facts []Fact

// Step is one line of a timeline.
type Step struct {
	Kind  Kind // since or until
	Cell       // when
	What  string
	Level Level
}
