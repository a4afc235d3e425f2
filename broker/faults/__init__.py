"""Faults by rule, for tests: requests that a rule matches fail, wait or lose their answer.

`rule.py` is a rule as its author gives it, and what is wrong with it. `matching.py` decides which
rules a request meets; `targets.py` knows what requests are about, `places.py` where a response has
its error codes, `answers.py` changes responses. All these are pure. `interceptor.py` does it, at
the one place that every request passes (`net/dispatcher.py`).
"""
