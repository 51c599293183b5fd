package browsertest

import (
	"encoding/json"
	"fmt"
	"time"
)

// Action is one step of a test in a browser, such as a click.
type Action func(*Browser) error

// Run carries out actions one after the other, until one fails.
func (b *Browser) Run(actions ...Action) error {
	for i, a := range actions {
		if err := a(b); err != nil {
			return fmt.Errorf("action %d: %w", i+1, err)
		}
	}
	return nil
}

// Navigate opens an address and waits until the page has been loaded.
func Navigate(url string) Action {
	return func(b *Browser) error {
		var opened struct{ ErrorText string }
		if err := b.call(b.session, "Page.navigate", object{"url": url}, &opened); err != nil {
			return err
		}
		if opened.ErrorText != "" {
			return fmt.Errorf("browser: %s: %s", url, opened.ErrorText)
		}
		return Poll(`document.readyState === "complete"`, nil)(b)
	}
}

// exception is a JavaScript exception.
type exception struct {
	Text      string
	Exception struct{ Description string }
}

func (e *exception) Error() string { return e.Text + " " + e.Exception.Description }

// Evaluate stores the value of an expression, of a promise its outcome, in what out points to; nil: nowhere.
func Evaluate(expression string, out any) Action {
	return func(b *Browser) error {
		var got struct {
			Result           struct{ Value json.RawMessage }
			ExceptionDetails *exception
		}
		err := b.call(b.session, "Runtime.evaluate", object{
			"expression": expression, "returnByValue": out != nil, "awaitPromise": true, "userGesture": true,
		}, &got)
		switch {
		case err != nil:
			return err
		case got.ExceptionDetails != nil:
			return fmt.Errorf("browser: %.100s: %w", expression, got.ExceptionDetails)
		case out == nil || got.Result.Value == nil:
			return nil
		}
		return json.Unmarshal(got.Result.Value, out)
	}
}

// Poll waits until an expression is true, and stores its value as Evaluate does.
func Poll(expression string, out any) Action {
	return func(b *Browser) error {
		for {
			var hold bool
			err := Evaluate("!!("+expression+")", &hold)(b)
			switch {
			case err != nil:
				return err
			case hold && out == nil:
				return nil
			case hold:
				return Evaluate(expression, out)(b)
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-b.ctx.Done():
				return fmt.Errorf("browser: %.100s: %w", expression, b.ctx.Err())
			}
		}
	}
}

// find is the expression for the first element of a selector.
func find(selector string) string { return fmt.Sprintf("document.querySelector(%q)", selector) }

// Text stores the text of an element.
func Text(selector string, out *string) Action { return Evaluate(find(selector)+".innerText", out) }

// Click presses and releases the mouse in the middle of an element.
func Click(selector string) Action {
	return func(b *Browser) error {
		var at struct{ X, Y, Width, Height float64 }
		err := Evaluate(find(selector)+`.scrollIntoView({block: "center", inline: "center", behavior: "instant"}); `+
			find(selector)+".getBoundingClientRect().toJSON()", &at)(b)
		for _, event := range []string{"mousePressed", "mouseReleased"} {
			if err == nil {
				err = b.call(b.session, "Input.dispatchMouseEvent", object{
					"type": event, "x": at.X + at.Width/2, "y": at.Y + at.Height/2, "button": "left", "clickCount": 1,
				}, nil)
			}
		}
		return err
	}
}

// Keys presses keys: each character is one, and so are [Home] and [End].
func Keys(keys string) Action {
	return func(b *Browser) error {
		for _, k := range keys {
			key := object{"key": string(k), "text": string(k)}
			switch string(k) {
			case Home:
				key = object{"key": "Home", "code": "Home", "windowsVirtualKeyCode": 36}
			case End:
				key = object{"key": "End", "code": "End", "windowsVirtualKeyCode": 35}
			}
			for _, event := range []string{"keyDown", "keyUp"} {
				key["type"] = event
				if err := b.call(b.session, "Input.dispatchKeyEvent", key, nil); err != nil {
					return err
				}
				delete(key, "text")
			}
		}
		return nil
	}
}

// Keys without a character.
const (
	Home = "\x01"
	End  = "\x02"
)

// Type presses keys in an element.
func Type(selector, text string) Action {
	return func(b *Browser) error { return b.Run(Evaluate(find(selector)+".focus()", nil), Keys(text)) }
}

// Screen sets the page's screen size, in CSS pixels.
func Screen(width, height int, scale float64) Action {
	return func(b *Browser) error {
		return b.call(b.session, "Emulation.setDeviceMetricsOverride",
			object{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": true}, nil)
	}
}
